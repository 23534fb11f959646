// Opening the driver under test, and the facts and checks that cases share.
#include "contract/kit.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <tuple>
#include <utility>

#include "contract/mutant.h"
#include "layers/layers.h"

namespace tb::contract {
namespace {

thread_local ErrorText last_error;

// What tb_host.option answers from while a driver opens; one open at a time.
std::mutex opening;
const Options *open_options = nullptr;

void set_error(tb_status status, int64_t native_code, const char *text) {
  last_error.status = status;
  last_error.native_code = native_code;
  last_error.text = text ? text : "";
  ++last_error.calls;
}

const char *option(const char *key) {
  if (!open_options || !key) return nullptr;
  const auto found = open_options->find(key);
  return found == open_options->end() ? nullptr : found->second.c_str();
}

bool listed(tb_status status) {
  return (status >= TB_OK && status <= TB_DATA_LOSS) || (status >= TB_NOT_READY && status <= TB_ABI_MISMATCH);
}

} // namespace

const tb_host *Kit::host() {
  static const tb_host given = {sizeof(tb_host), TB_ABI_MAJOR, TB_ABI_MINOR, set_error, [](int32_t, const char *) {},
                                option,          nullptr,      nullptr};
  return &given;
}

static tb_status open_with_mutant(const Target &target, const tb_host *host, tb_driver_api *api, tb_driver **self) {
  const tb_status status = target.open(host, api, self);
  if (status != TB_OK || target.mutant.empty()) return status;
  const Mutant *mutant = find_mutant(target.mutant);
  if (!mutant) throw Failed("there is no mutant " + target.mutant);
  apply_mutant(*mutant, *api);
  return status;
}

Opened::Opened(const Target &target, const Options &options) {
  std::lock_guard lock(opening);
  open_options = &options;
  api.struct_size = sizeof api;
  last_error = {};
  const tb_status status = open_with_mutant(target, Kit::host(), &api, &self);
  open_options = nullptr;
  if (status == TB_ALREADY_EXISTS) throw NotOffered(target.name + " does not open a second time");
  if (status != TB_OK)
    throw Failed(target.name + " did not open: status " + std::to_string(status) + ", " + shown(last_error.text));
  if (!self) throw Failed(target.name + " opened without giving a self");
  if (target.layers.empty()) return;
  std::string problem;
  if (layers::apply(target.layers, Kit::host(), &api, &self, &problem) != TB_OK) {
    api.close(self);
    throw Failed("layers " + shown(target.layers) + ": " + problem);
  }
}

void Opened::close() {
  last_error = {};
  const tb_status status = api.close(std::exchange(self, nullptr));
  if (status == TB_OK) return;
  throw Failed("close was refused with status " + std::to_string(status) + ": " + last_error.text);
}

Opened::~Opened() noexcept(false) {
  if (!self) return;
  if (std::uncaught_exceptions() > unwinding_)
    api.close(self); // refused or not: the case has failed, and says why
  else
    close();
}

// The table's functions that give and take blocks are counted in place; one Kit is open in a process.
struct BlockCount {
  static inline tb_driver_api honest{};
  static inline std::atomic<int64_t> live{0};

  template <auto Member, class... A> static tb_status give(tb_driver *self, A... arguments) {
    const tb_status status = (honest.*Member)(self, arguments...);
    if (status == TB_OK) live.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  template <auto Member, class... A> static tb_status take(tb_driver *self, A... arguments) {
    const tb_status status = (honest.*Member)(self, arguments...);
    void *const block = std::get<sizeof...(A) - 1>(std::tuple(arguments...));          // the last parameter
    if (block && !tb_is_refusal(status)) live.fetch_sub(1, std::memory_order_relaxed); // rule E8
    return status;
  }
  template <auto Member, class... A> static void count_given(tb_driver_api &api, tb_status (*)(tb_driver *, A...)) {
    if (api.*Member) api.*Member = give<Member, A...>;
  }
  template <auto Member, class... A> static void count_taken(tb_driver_api &api, tb_status (*)(tb_driver *, A...)) {
    if (api.*Member) api.*Member = take<Member, A...>;
  }
  static void install(tb_driver_api &api) {
    honest = api;
    live = 0;
    count_given<&tb_driver_api::mem_alloc>(api, api.mem_alloc);
    count_given<&tb_driver_api::mem_alloc_async>(api, api.mem_alloc_async);
    count_given<&tb_driver_api::mem_alloc_host>(api, api.mem_alloc_host);
    count_taken<&tb_driver_api::mem_free>(api, api.mem_free);
    count_taken<&tb_driver_api::mem_free_async>(api, api.mem_free_async);
    count_taken<&tb_driver_api::mem_free_host>(api, api.mem_free_host);
  }
};

Kit::Kit(const Target &target, const Options &options)
    : target_(target), options_(options), opened_(std::make_unique<Opened>(target, options)) {
  BlockCount::install(opened_->api);
}

int64_t Kit::live_blocks() const {
  constexpr int64_t kept_by_delay = 2;
  return BlockCount::live - (delay_ ? kept_by_delay : 0);
}

// Here and not in opened_'s own destructor, out of which a unique_ptr lets nothing.
Kit::~Kit() noexcept(false) {
  if (std::uncaught_exceptions() == unwinding_) {
    close();
  } else {
    delay_.reset();
    if (opened_->self) opened_->api.close(std::exchange(opened_->self, nullptr));
  }
}

void Kit::close() {
  delay_.reset();
  if (opened_->self) opened_->close();
}

int32_t Kit::device_count() {
  Kit &kit = *this;
  int32_t count = -1;
  CHECK_OK(api().device_count(self(), &count));
  return count;
}

const tb_device_info &Kit::info(int32_t device) {
  Kit &kit = *this;
  while (infos_.size() <= static_cast<size_t>(device)) {
    tb_device_info info{};
    info.struct_size = sizeof info;
    CHECK_OK(api().device_get_info(self(), static_cast<int32_t>(infos_.size()), &info));
    infos_.push_back(info);
  }
  return infos_[static_cast<size_t>(device)];
}

void Kit::need_devices(int32_t count) {
  const int32_t there = device_count();
  if (there < count)
    throw NotOffered("needs " + std::to_string(count) + " devices, there " + (there == 1 ? "is " : "are ") +
                     std::to_string(there));
}

const tb_graph_api &Kit::graph() {
  Kit &kit = *this;
  need(api().get_extension, "get_extension");
  if (graph_.capture_begin) return graph_;
  tb_graph_api table{};
  table.struct_size = sizeof table;
  const tb_status status = api().get_extension(self(), TB_GRAPH_EXTENSION, TB_GRAPH_VERSION, &table, sizeof table);
  if (status == TB_NOT_FOUND) {
    take_error();
    throw NotOffered("no extension " TB_GRAPH_EXTENSION);
  }
  CHECK_OK(status);
  return graph_ = table;
}

tb_stream *Kit::default_stream(int32_t device) {
  Kit &kit = *this;
  tb_stream *stream = nullptr;
  if (has_async()) CHECK_OK(api().stream_default(self(), device, &stream));
  return stream;
}

void Kit::synchronize(tb_stream *stream) {
  Kit &kit = *this;
  if (has_async()) CHECK_OK(api().stream_synchronize(self(), stream));
}

void Kit::synchronize_device(int32_t device) {
  Kit &kit = *this;
  if (has_async()) CHECK_OK(api().device_synchronize(self(), device));
}

void Kit::to_device(void *dst, const void *src, uint64_t size, int32_t device) {
  Kit &kit = *this;
  tb_stream *stream = default_stream(device);
  CHECK_OK(api().mem_copy(self(), device, stream, dst, src, size, TB_COPY_HOST_TO_DEVICE));
  synchronize(stream);
}

void Kit::to_host(void *dst, const void *src, uint64_t size, int32_t device) {
  Kit &kit = *this;
  tb_stream *stream = default_stream(device);
  CHECK_OK(api().mem_copy(self(), device, stream, dst, src, size, TB_COPY_DEVICE_TO_HOST));
  synchronize(stream);
}

std::vector<uint8_t> Kit::bytes_of(const void *src, uint64_t size, int32_t device) {
  std::vector<uint8_t> bytes(size);
  to_host(bytes.data(), src, size, device);
  return bytes;
}

tb_status Kit::open_raw(const tb_host *host, tb_driver_api *api, tb_driver **self) const {
  std::lock_guard lock(opening);
  open_options = &options_;
  const tb_status status = open_with_mutant(target_, host, api, self);
  open_options = nullptr;
  return status;
}

ErrorText Kit::take_error() { return std::exchange(last_error, {}); }

void Kit::check_status(tb_status got, tb_status want, const char *call, const char *file, int line) {
  count_check();
  const ErrorText error = take_error();
  const std::string said = error.text.empty() ? std::string(", without a text") : ": " + error.text;
  if (!listed(got))
    fail_check(file, line, std::string(call) + " gave " + std::to_string(got) + ", which is no status (rule E6)");
  if (got != want)
    fail_check(file, line,
               std::string(call) + " gave " + std::to_string(got) + " instead of " + std::to_string(want) + said);
  if (got == TB_OK || got == TB_NOT_READY) return;
  if (error.calls == 0 || error.text.empty())
    fail_check(file, line,
               std::string(call) + " failed with " + std::to_string(got) + ", but without a text (rule E2)");
  if (error.status != got)
    fail_check(file, line,
               std::string(call) + " gave " + std::to_string(got) + ", but passed set_error " +
                   std::to_string(error.status) + " (rule E2)");
}

void Kit::state(const std::string &what) { statements_.push_back(what); }
std::vector<std::string> Kit::take_statements() { return std::exchange(statements_, {}); }

} // namespace tb::contract
