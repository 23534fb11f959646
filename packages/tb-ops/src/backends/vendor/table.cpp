// Reads tables, and counts.
#include "backends/vendor/table.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "runtime/runtime.h"

namespace tb::ops::vendor {
namespace {

std::vector<std::string> libraries;
std::mutex entries_mutex;
std::vector<std::unique_ptr<Entry>> all;
std::vector<Table> all_tables;

thread_local const char *called_function = "tb.kernels";
thread_local int32_t called_device = -1;

void set_error(tb_status status, int64_t native_code, const char *text) {
  runtime.device.set_error(status, native_code, called_device, called_function, text);
}

// A later version of the header may have more fields in an entry, an earlier one fewer.
void add(const tb_kernels &table, const std::string &source) {
  for (uint32_t i = 0; i < table.kernel_count; i++) {
    const auto *bytes = reinterpret_cast<const std::byte *>(table.kernels) + size_t{i} * table.kernel_size;
    tb_kernel kernel{};
    std::memcpy(&kernel, bytes, std::min<size_t>(table.kernel_size, sizeof kernel));
    TORCH_CHECK(kernel.name && kernel.operation && kernel.run, "The kernel table of ", source, " is wrong: entry ", i,
                kernel.name ? std::string(" (") + kernel.name + ")" : "", " has no ",
                !kernel.name        ? "name"
                : !kernel.operation ? "operation"
                                    : "function `run`",
                ". See tb/kernels.h, and report it to who ships ", source);
    const std::lock_guard guard(entries_mutex);
    all.push_back(std::make_unique<Entry>(kernel, table.self, source));
  }
  all_tables.push_back({table, source});
}

void read_driver() {
  tb_kernels table{};
  table.struct_size = sizeof table;
  const tb_status status =
      runtime.driver->get_extension(runtime.self, TB_KERNELS_EXTENSION, TB_KERNELS_VERSION, &table, sizeof table);
  if (status == TB_NOT_FOUND) {
    take_error_text(); // which is none
    return;
  }
  if (status == TB_UNSUPPORTED) { // a layer that cannot pass the table
    TORCH_WARN("The driver's own kernels (tb.kernels) are not used: ", take_error_text());
    return;
  }
  check(status, "get_extension", -1);
  add(table, c10::str("the driver ", driver_info().name));
}

void read_library(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); // never closed: its kernels are registered
  TORCH_CHECK(library, "The library of kernels ", path, " cannot be loaded: ", dlerror(),
              ". Repair or remove the package whose entry point tb.kernels names it");
  const auto open = reinterpret_cast<tb_kernels_open_fn>(dlsym(library, "tb_kernels_open"));
  TORCH_CHECK(open, "The library of kernels ", path, " exports no function tb_kernels_open (tb/kernels.h)");
  static const tb_kernels_host host{sizeof host, 0, runtime.driver, runtime.self, &set_error};
  tb_kernels table{};
  table.struct_size = sizeof table;
  const Calling calling("tb_kernels_open", -1);
  const tb_status status = open(&host, &table);
  if (status == TB_UNSUPPORTED) return;
  char text[2048] = "";
  if (status != TB_OK) runtime.device.describe_error(status, "tb_kernels_open", -1, text, sizeof text);
  TORCH_CHECK(status == TB_OK, "The library of kernels ", path, " does not open: ", text);
  add(table, path);
}

} // namespace

Calling::Calling(const char *function, int32_t device) { called_function = function, called_device = device; }
Calling::~Calling() { called_function = "tb.kernels", called_device = -1; }

std::string take_error_text() {
  tb_error error{};
  error.struct_size = sizeof error;
  return runtime.device.take_error(&error) ? error.text : "";
}

Count &Entry::left(const std::string &reason) {
  const std::lock_guard guard(mutex_);
  std::unique_ptr<Count> &count = left_[reason];
  if (!count) count = std::make_unique<Count>(0);
  return *count;
}

std::map<std::string, uint64_t> Entry::reasons() const {
  const std::lock_guard guard(mutex_);
  std::map<std::string, uint64_t> out;
  for (const auto &[reason, count] : left_)
    if (const uint64_t calls = count->load()) out.emplace(reason, calls);
  return out;
}

void add_library(const std::string &path) { libraries.push_back(path); }

std::string Table::path_of(const std::string &name) const {
  if (name.starts_with('/')) return name;
  Dl_info object{};
  for (const char *text : {fields.images, fields.shim, fields.compiler_identity, fields.compiler_command})
    if (text && dladdr(text, &object) != 0 && object.dli_fname)
      return (std::filesystem::absolute(object.dli_fname).parent_path() / name).string();
  C10_THROW_ERROR(Error, c10::str("The kernel table of ", source, " names the file ", name,
                                  ", which is not absolute, by a text that is in no library. Report it to who ships ",
                                  source));
}

const std::vector<Table> &tables() { return all_tables; }

void read_tables() {
  {
    const std::lock_guard guard(entries_mutex);
    std::erase_if(all, [](const std::unique_ptr<Entry> &entry) { return !entry->added; });
  }
  all_tables.clear();
  read_driver();
  for (const std::string &path : libraries) read_library(path);
}

void add_entry(std::unique_ptr<Entry> entry) {
  const std::lock_guard guard(entries_mutex);
  entry->added = true;
  all.push_back(std::move(entry));
}

std::vector<Entry *> entries() {
  const std::lock_guard guard(entries_mutex);
  std::vector<Entry *> out;
  for (const std::unique_ptr<Entry> &entry : all) out.push_back(entry.get());
  return out;
}

} // namespace tb::ops::vendor
