// Cases about failures: what every function promises when it fails, and failures of queued work.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <set>

#include "contract/support/arguments.h"

namespace tb::contract::errors_cases {
namespace {

constexpr int32_t no_device = std::numeric_limits<int32_t>::max();

// Failing calls of functions that name no device, so that nothing but their own arguments can be wrong. Each gives its
// status and says whether its out-parameter kept the value from before.
struct OwnFailure {
  const char *function;
  tb_status (*call)(Kit &kit, bool *untouched);
};

void *const nobodys = reinterpret_cast<void *>(uintptr_t(64));

template <class T, class Call> tb_status kept(bool *untouched, T before, Call call) {
  T out = before;
  const tb_status status = call(&out);
  *untouched = out == before;
  return status;
}

const OwnFailure own_failures[] = {
    {"get_extension",
     [](Kit &kit, bool *untouched) {
       return kept(untouched, uint64_t(0xA5A5), [&](uint64_t *out) {
         return kit.api().get_extension(kit.self(), "tb.no_such_extension", 1, out, sizeof *out);
       });
     }},
    {"mem_get_info",
     [](Kit &kit, bool *untouched) {
       tb_pointer_info info{};
       info.struct_size = sizeof info;
       info.size = 77;
       const tb_status status = kit.api().mem_get_info(kit.self(), nobodys, &info);
       *untouched = info.size == 77 && !info.base && !info.kind && !info.device;
       return status;
     }},
    {"mem_alloc_async",
     [](Kit &kit, bool *untouched) {
       return kept(untouched, nobodys, [&](void **out) {
         return kit.api().mem_alloc_async(kit.self(), kit.default_stream(), uint64_t(1) << 60, 0, out);
       });
     }},
    {"vmm_reserve",
     [](Kit &kit, bool *untouched) {
       return kept(untouched, nobodys,
                   [&](void **out) { return kit.api().vmm_reserve(kit.self(), uint64_t(1) << 62, 0, nullptr, out); });
     }},
    {"event_elapsed_ns",
     [](Kit &kit, bool *untouched) {
       Event start(kit), end(kit);
       return kept(untouched, int64_t(-77),
                   [&](int64_t *out) { return kit.api().event_elapsed_ns(kit.self(), start, end, out); });
     }},
    {"closure_reserve",
     [](Kit &kit, bool *untouched) {
       return kept(untouched, nobodys, [&](void **out) {
         return kit.api().closure_reserve(kit.self(), kit.default_stream(), uint64_t(1) << 40, out);
       });
     }},
};

// Functions with an out-parameter that fail only with a handle that a generated call cannot make; their own areas have
// the failing calls. device_count and get_info cannot fail but for a NULL out-parameter (ERR-11).
const std::set<std::string> elsewhere = {"device_count",  "get_info",          "stream_native",     "module_function",
                                         "module_global", "function_get_info", "ipc_export_memory", "ipc_export_event"};

// Prints between begin and end go to a file.
class Output {
public:
  Output() {
    std::fflush(nullptr);
    file_ = std::tmpfile();
    if (!file_) throw Failed("no temporary file for what is printed");
    for (int i = 0; i < 2; ++i) {
      kept_[i] = fcntl(i + 1, F_DUPFD_CLOEXEC, 10);
      dup2(fileno(file_), i + 1);
    }
  }
  std::string end() {
    if (!file_) return {};
    std::fflush(nullptr);
    for (int i = 0; i < 2; ++i) {
      dup2(kept_[i], i + 1);
      close(kept_[i]);
    }
    std::string text(static_cast<size_t>(lseek(fileno(file_), 0, SEEK_END)), '\0');
    const ssize_t got = pread(fileno(file_), text.data(), text.size(), 0);
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
    std::fclose(file_);
    file_ = nullptr;
    return text;
  }
  ~Output() { end(); }

private:
  FILE *file_;
  int kept_[2];
};

// Calls every function that names a device with one that there is not, each place in turn.
void for_each_device(Arguments &arguments, const std::vector<int32_t> &strangers,
                     const std::function<void(const SlotCall &, tb_status)> &reported) {
  for (const SlotCall &slot : arguments.slots())
    for (size_t i = 0; i < slot.parameters.size(); ++i)
      for (const int32_t stranger : strangers)
        if (is_device_name(slot.parameters[i])) reported(slot, *arguments.call(slot, Spoil::device, i, stranger));
}

void queue_failure(Kit &kit, tb_stream *stream, const char *text) { submit_failure(kit, stream, TB_DATA_LOSS, text); }

} // namespace

TB_CASE(ERR, 01, TB_GROUP_CORE, "E1", "a failing call leaves its out-parameters alone", .own_process = true) {
  Arguments arguments(kit);
  for (const SlotCall &slot : arguments.slots()) {
    const auto &names = slot.parameters;
    if (std::none_of(names.begin(), names.end(), is_out_name)) continue;
    const auto device = std::find_if(names.begin(), names.end(), is_device_name);
    const auto own = std::find_if(std::begin(own_failures), std::end(own_failures),
                                  [&](const OwnFailure &each) { return slot.name == each.function; });
    tb_status status = TB_OK;
    bool untouched = false;
    if (device != names.end()) {
      status = *arguments.call(slot, Spoil::device, static_cast<size_t>(device - names.begin()), no_device);
      untouched = arguments.out_untouched();
    } else if (own != std::end(own_failures)) {
      status = own->call(kit, &untouched);
    } else if (elsewhere.count(slot.name)) {
      continue;
    } else {
      throw Failed("this case has no failing call of " + slot.name + ": add one");
    }
    if (status == TB_OK) throw Failed(slot.name + " succeeds where it must fail");
    if (!untouched) throw Failed(slot.name + " failed, and wrote to an out-parameter");
    count_check();
  }
  kit.take_error();
}

TB_CASE(ERR, 02, TB_GROUP_CORE, "E2", "a failing call sets its text, in its own thread", .own_process = true) {
  Arguments arguments(kit);
  for_each_device(arguments, {no_device}, [&](const SlotCall &slot, tb_status status) {
    const ErrorText error = kit.take_error();
    if (status == TB_OK) throw Failed(slot.name + " succeeds on device 2147483647 (rule E7)");
    if (error.text.empty()) throw Failed(slot.name + " failed, but set no text");
    if (error.status != status) throw Failed(slot.name + " passed set_error another status than it returned");
    count_check();
  });
  // Two threads fail at once: each has its own.
  Threads threads;
  for (int32_t bad : {-1, no_device})
    threads.start([&kit, bad] {
      tb_device_info info{};
      info.struct_size = sizeof info;
      for (int round = 0; round < 100; ++round)
        CHECK_STATUS(kit.api().device_get_info(kit.self(), bad, &info), TB_OUT_OF_RANGE);
    });
  threads.join();
}

TB_CASE(ERR, 03, TB_GROUP_CORE, "E3", "a success leaves no text behind") {
  int32_t count = 0;
  tb_device_info info{};
  info.struct_size = sizeof info;
  CHECK_STATUS(kit.api().device_get_info(kit.self(), no_device, &info), TB_OUT_OF_RANGE);
  kit.take_error();
  CHECK(kit.api().device_count(kit.self(), &count) == TB_OK);
  CHECK_EQUAL(kit.take_error().calls, 0u);
  void *block = nullptr;
  CHECK(kit.api().mem_alloc(kit.self(), 0, 4096, 0, &block) == TB_OK);
  CHECK_EQUAL(kit.take_error().calls, 0u);
  CHECK(kit.api().mem_set(kit.self(), 0, kit.default_stream(), block, 1, 1, 4096) == TB_OK);
  kit.synchronize(kit.default_stream());
  CHECK(kit.api().mem_free(kit.self(), 0, block) == TB_OK);
  CHECK_EQUAL(kit.take_error().calls, 0u);
}

TB_CASE(ERR, 04, TB_GROUP_ASYNC | TB_GROUP_CLOSURE, "E4",
        "a failure of queued work is reported once, and the device works on") {
  kit::Stream stream(kit);
  kit::Block block(kit, 64);
  queue_failure(kit, stream, "planted for ERR-04");
  const tb_status reported = kit.api().stream_synchronize(kit.self(), stream);
  const ErrorText error = kit.take_error();
  CHECK_EQUAL(reported, static_cast<tb_status>(TB_DATA_LOSS));
  CHECK(error.text.find("planted for ERR-04") != std::string::npos);
  CHECK_OK(kit.api().stream_synchronize(kit.self(), stream));
  CHECK_OK(kit.api().stream_query(kit.self(), stream));
  CHECK_OK(kit.api().device_synchronize(kit.self(), 0));
  CHECK_OK(kit.api().mem_set(kit.self(), 0, stream, block.data(), 7, 1, 64));
  stream.synchronize();
  CHECK(block.read() == std::vector<uint8_t>(64, 7));
}

TB_CASE(ERR, 05, TB_GROUP_ASYNC | TB_GROUP_CLOSURE, "E4", "a failure travels with an event to the stream that waits") {
  kit::Stream first(kit), second(kit);
  kit::Event event(kit);
  queue_failure(kit, first, "planted for ERR-05");
  CHECK_OK(kit.api().event_record(kit.self(), event, first));
  CHECK_OK(kit.api().stream_wait_event(kit.self(), second, event));
  submit(kit, second, [] {});
  const tb_status reported = kit.api().stream_synchronize(kit.self(), second);
  const ErrorText error = kit.take_error();
  CHECK_EQUAL(reported, static_cast<tb_status>(TB_DATA_LOSS));
  CHECK(error.text.find("planted for ERR-05") != std::string::npos);
  CHECK_OK(kit.api().stream_synchronize(kit.self(), second)); // reported already
  kit.api().stream_synchronize(kit.self(), first);            // once over both, or once each: both read the rule so
  kit.take_error();
  CHECK_OK(kit.api().stream_synchronize(kit.self(), first));
}

TB_CASE(ERR, 06, TB_GROUP_ASYNC | TB_GROUP_CLOSURE, "E4", "a query that covers a failure tells it as well") {
  kit::Stream stream(kit);
  kit::Event event(kit);
  queue_failure(kit, stream, "planted for ERR-06");
  CHECK_OK(kit.api().event_record(kit.self(), event, stream));
  tb_status reported;
  const double until = seconds_now() + 10;
  while ((reported = kit.api().event_query(kit.self(), event)) == TB_NOT_READY && seconds_now() < until)
    std::this_thread::yield();
  CHECK_STATUS(reported, TB_DATA_LOSS);
  CHECK_OK(kit.api().event_query(kit.self(), event));
}

TB_CASE(ERR, 09, TB_GROUP_CORE, "E5", "the driver prints nothing") {
  Output output;
  try {
    Opened second(kit.target(), kit.options());
    Arguments arguments(kit);
    for_each_device(arguments, {no_device}, [](const SlotCall &, tb_status) {});
    void *block = nullptr;
    CHECK_STATUS(kit.api().mem_alloc(kit.self(), 0, uint64_t(1) << 60, 0, &block), TB_OUT_OF_MEMORY);
  } catch (...) {
    output.end();
    throw;
  }
  CHECK_EQUAL(output.end(), std::string());
}

TB_CASE(ERR, 10, TB_GROUP_CORE, "E6", "only statuses of the list are returned") {
  Arguments arguments(kit);
  for_each_device(arguments, {-1, std::numeric_limits<int32_t>::min(), kit.device_count(), no_device},
                  [&](const SlotCall &slot, tb_status status) {
                    kit.check_status(status, status, slot.name.c_str(), __FILE__, __LINE__);
                  });
}

TB_CASE(ERR, 11, TB_GROUP_CORE, "E7", "a NULL out-parameter is refused", .own_process = true) {
  Arguments arguments(kit);
  for (const SlotCall &slot : arguments.slots())
    for (size_t i = 0; i < slot.parameters.size(); ++i) {
      // An unknown extension needs no table.
      if (!is_out_name(slot.parameters[i]) || slot.name == "get_extension") continue;
      if (const auto status = arguments.call(slot, Spoil::out, i))
        kit.check_status(*status, TB_INVALID_ARGUMENT, slot.name.c_str(), __FILE__, __LINE__);
    }
}

TB_CASE(ERR, 12, TB_GROUP_CORE, "E7", "an unknown flag is refused by every function that takes flags") {
  Arguments arguments(kit);
  for (const SlotCall &slot : arguments.slots())
    for (size_t i = 0; i < slot.parameters.size(); ++i) {
      if (slot.parameters[i] != "flags") continue;
      if (const auto status = arguments.call(slot, Spoil::flags, i))
        kit.check_status(*status, TB_INVALID_ARGUMENT, slot.name.c_str(), __FILE__, __LINE__);
    }
}

} // namespace tb::contract::errors_cases
