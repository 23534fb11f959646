// The layer that writes every call to a file.
#include "layers/trace/trace.h"

#include <cerrno>
#include <cstring>

namespace tb::layers {
namespace {

int thread_number() {
  static std::atomic<int> threads{0};
  static thread_local const int mine = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return mine;
}

std::string needed_file(OptionReader &options) {
  const std::string path = options.text("file", "");
  if (path.empty()) throw BadSpec("the layer trace needs a file: trace:file=calls.jsonl");
  return path;
}

} // namespace

Trace::Trace(const tb_host *host, OptionReader &options)
    : LayerOf(name, host), path_(needed_file(options)), bytes_(options.number("bytes", 0)) {
  file_ = std::fopen(path_.c_str(), "we"); // not inherited by programs that this one starts
  if (!file_)
    throw BadSpec("the layer trace cannot write " + path_ + ": " + std::strerror(errno) +
                  ". Give a file in a folder that is there");
}

Trace::~Trace() {
  if (std::fclose(file_) != 0) log(2, "the trace %s is not complete: %s", path_.c_str(), std::strerror(errno));
}

void Trace::prepare(const tb_driver_api &api, tb_driver *self) {
  tb_driver_info info{};
  info.struct_size = sizeof info;
  int32_t count = 0;
  (void)api.get_info(self, &info);
  (void)api.device_count(self, &count);
  std::string functions, devices;
  for (int place = 0; place < device::driver_slot_count; ++place) {
    const auto slot = static_cast<Slot>(place);
    if (!device::slot_value(api, slot)) continue;
    if (!functions.empty()) functions += ' ';
    functions += name_of(slot);
  }
  for (int32_t device = 0; device < count; ++device) {
    tb_device_info facts{};
    facts.struct_size = sizeof facts;
    (void)api.device_get_info(self, device, &facts);
    devices += joined({device ? ",\"" : "\"", hexadecimal(&facts, sizeof facts), "\""});
  }
  std::string header = "{\"trace\":1,\"abi\":\"" + std::to_string(TB_ABI_MAJOR) + '.' + std::to_string(TB_ABI_MINOR) +
                       "\",\"name\":" + quoted(info.name) + ",\"groups\":" + std::to_string(api.groups) +
                       ",\"build_id\":" + quoted(api.build_id) + ",\"functions\":\"" + functions + "\",\"info\":\"" +
                       hexadecimal(&info, sizeof info) + "\",\"devices\":[" + devices + "]}\n";
  std::fputs(header.c_str(), file_);
  std::fflush(file_);
}

std::string Trace::data_text(int32_t, tb_stream *, void *, const void *src, uint64_t size, int32_t kind) const {
  const uint64_t shown = std::min(size, bytes_);
  if (kind != TB_COPY_HOST_TO_DEVICE || !src || shown == 0) return "";
  return joined({",\"data\":\"", hexadecimal(src, shown), "\""});
}

void Trace::write(uint64_t number, Slot slot, const std::string &arguments, tb_status status, int64_t ns,
                  const std::string &results) {
  std::string line = "{\"n\":" + std::to_string(number) + ",\"thread\":" + std::to_string(thread_number()) +
                     ",\"call\":\"" + name_of(slot) + "\",\"arguments\":" + arguments +
                     ",\"status\":" + std::to_string(status) + ",\"ns\":" + std::to_string(ns) +
                     ",\"result\":" + results + "}\n";
  std::lock_guard lock(writing_);
  std::fputs(line.c_str(), file_);
  std::fflush(file_); // a program that crashes leaves its last calls behind
}

} // namespace tb::layers
