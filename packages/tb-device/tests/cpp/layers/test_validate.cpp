// Misuse is refused with a text that names the handle and the calls; right use passes.
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/layers/layered_driver.h"

using test::LayeredDriver;

namespace {

// Blocks the worker of a stream until the object goes out of scope.
class Held {
public:
  Held(LayeredDriver &driver, tb_stream *stream) {
    driver.submit(stream, [gate = gate_] { gate->pass(); });
  }
  ~Held() { gate_->open(); }
  Held(const Held &) = delete;

private:
  std::shared_ptr<test::Gate> gate_ = std::make_shared<test::Gate>();
};

} // namespace

CASE(use_after_destroy_names_both_calls) {
  LayeredDriver driver("validate");
  tb_stream *stream = driver.create_stream();                         // call 1
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK); // call 2
  CHECK_REFUSED(driver.api.stream_query(driver.self, stream), TB_INVALID_ARGUMENT, "stream_query got stream",
                "call 2 (stream_destroy)", "call 1 (stream_create)", "This is call 3");
  CHECK_REFUSED(driver.api.stream_destroy(driver.self, stream), TB_INVALID_ARGUMENT, "call 2 (stream_destroy)");
  tb_event *event = driver.create_event();
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  CHECK_REFUSED(driver.api.stream_wait_event(driver.self, driver.default_stream(), event), TB_INVALID_ARGUMENT,
                "event_destroy");
}

CASE(double_free_names_the_first_one) {
  LayeredDriver driver("validate");
  void *block = driver.allocate(100);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
  CHECK_REFUSED(driver.api.mem_free(driver.self, 0, block), TB_INVALID_ARGUMENT, "call 2 (mem_free)",
                "call 1 (mem_alloc)", "100 bytes");
  CHECK_REFUSED(driver.set(driver.default_stream(), block, 1), TB_INVALID_ARGUMENT, "gave back already", "mem_set");
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, nullptr), TB_OK);
}

CASE(a_pointer_into_a_block_is_not_the_block) {
  LayeredDriver driver("validate");
  auto *block = static_cast<char *>(driver.allocate(100));
  CHECK_REFUSED(driver.api.mem_free(driver.self, 0, block + 5), TB_INVALID_ARGUMENT, "is 5 bytes into");
  int local = 0;
  CHECK_REFUSED(driver.api.mem_free(driver.self, 0, &local), TB_INVALID_ARGUMENT, "no block of device memory");
  CHECK_REFUSED(driver.api.mem_free_host(driver.self, block), TB_INVALID_ARGUMENT, "block of device memory");
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
}

CASE(handles_of_another_device_and_driver_are_refused) {
  LayeredDriver driver("validate", {{"devices", "2"}}), other("validate");
  tb_stream *second = driver.create_stream(1), *foreign = other.create_stream();
  void *block = driver.allocate(64);
  CHECK_REFUSED(driver.set(second, block, 64), TB_INVALID_ARGUMENT, "of device 1");
  CHECK_REFUSED(driver.api.mem_free(driver.self, 1, block), TB_INVALID_ARGUMENT, "on device 0");
  CHECK_REFUSED(driver.set(second, block, 64, 1), TB_INVALID_ARGUMENT, "peer_copy");
  CHECK_REFUSED(driver.api.stream_query(driver.self, foreign), TB_INVALID_ARGUMENT, "another open driver");
  CHECK_REFUSED(driver.api.stream_query(driver.self, static_cast<tb_stream *>(block)), TB_INVALID_ARGUMENT,
                "this driver never gave it");
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, second), TB_OK);
  CHECK_EQUAL(other.api.stream_destroy(other.self, foreign), TB_OK);
}

CASE(copies_and_sets_stay_within_a_block) {
  LayeredDriver driver("validate");
  tb_stream *stream = driver.default_stream();
  auto *block = static_cast<char *>(driver.allocate(100));
  char host[128] = {};
  const auto copy = [&](void *dst, const void *src, uint64_t size, int32_t kind) {
    return driver.api.mem_copy(driver.self, 0, stream, dst, src, size, kind);
  };
  CHECK_EQUAL(copy(block, host, 100, TB_COPY_HOST_TO_DEVICE), TB_OK);
  CHECK_EQUAL(copy(block + 99, host, 1, TB_COPY_HOST_TO_DEVICE), TB_OK);
  CHECK_EQUAL(copy(nullptr, nullptr, 0, TB_COPY_HOST_TO_DEVICE), TB_OK);
  CHECK_REFUSED(copy(block + 99, host, 2, TB_COPY_HOST_TO_DEVICE), TB_INVALID_ARGUMENT, "goes 1 bytes past the end",
                "has 100 bytes", "begins at byte 99");
  CHECK_REFUSED(copy(host, block, 101, TB_COPY_DEVICE_TO_HOST), TB_INVALID_ARGUMENT, "past the end");
  CHECK_REFUSED(copy(block, block + 50, UINT64_MAX, TB_COPY_DEVICE_TO_DEVICE), TB_INVALID_ARGUMENT, "past the end");
  CHECK_REFUSED(copy(block, nullptr, 4, TB_COPY_HOST_TO_DEVICE), TB_INVALID_ARGUMENT, "NULL for 'src'");
  CHECK_REFUSED(driver.api.mem_set(driver.self, 0, stream, block, 0, 4, 26), TB_INVALID_ARGUMENT, "past the end");
  CHECK_REFUSED(driver.api.mem_set(driver.self, 0, stream, block, 0, 4, UINT64_MAX / 2), TB_INVALID_ARGUMENT,
                "past the end");
  CHECK_REFUSED(driver.api.mem_set(driver.self, 0, stream, block, 0, 3, 1), TB_INVALID_ARGUMENT, "pattern_size 3");
  tb_copy_2d rows = {sizeof rows, TB_COPY_HOST_TO_DEVICE, block, host, 40, 20, 20, 3};
  CHECK_EQUAL(driver.api.mem_copy_2d(driver.self, 0, stream, &rows), TB_OK);
  rows.width = 21;
  CHECK_REFUSED(driver.api.mem_copy_2d(driver.self, 0, stream, &rows), TB_INVALID_ARGUMENT, "rows would overlap");
  rows = {sizeof rows, TB_COPY_HOST_TO_DEVICE, block, host, 41, 20, 20, 3};
  CHECK_REFUSED(driver.api.mem_copy_2d(driver.self, 0, stream, &rows), TB_INVALID_ARGUMENT, "goes 2 bytes past");
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
}

CASE(the_kind_of_a_copy_must_be_that_of_its_pointers) {
  LayeredDriver driver("validate");
  tb_stream *stream = driver.default_stream();
  void *block = driver.allocate(64);
  char host[64] = {};
  const auto copy = [&](void *dst, const void *src, int32_t kind) {
    return driver.api.mem_copy(driver.self, 0, stream, dst, src, 64, kind);
  };
  CHECK_REFUSED(copy(block, host, TB_COPY_DEVICE_TO_DEVICE), TB_INVALID_ARGUMENT, "'src'", "no memory of this driver");
  CHECK_REFUSED(copy(block, host, TB_COPY_DEVICE_TO_HOST), TB_INVALID_ARGUMENT, "'dst'", "wants host memory");
  CHECK_REFUSED(copy(block, block, TB_COPY_HOST_TO_DEVICE), TB_INVALID_ARGUMENT, "'src'", "wants host memory");
  CHECK_REFUSED(copy(block, host, 4), TB_INVALID_ARGUMENT, "kind 4");
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
}

CASE(null_unknown_flags_and_devices_are_refused_in_every_function) {
  LayeredDriver driver("validate");
  void *out = nullptr;
  CHECK_REFUSED(driver.api.mem_alloc(driver.self, 0, 1, 0, nullptr), TB_INVALID_ARGUMENT, "NULL for 'out'");
  CHECK_REFUSED(driver.api.mem_alloc(driver.self, 0, 1, 8, &out), TB_INVALID_ARGUMENT, "unknown flags 0x8");
  CHECK_REFUSED(driver.api.mem_alloc(driver.self, 1, 1, 0, &out), TB_OUT_OF_RANGE, "device 1");
  CHECK_REFUSED(driver.api.mem_alloc(driver.self, -1, 1, 0, &out), TB_OUT_OF_RANGE, "device -1");
  CHECK_REFUSED(driver.api.stream_synchronize(driver.self, nullptr), TB_INVALID_ARGUMENT, "NULL for its stream");
  CHECK_REFUSED(driver.api.event_query(driver.self, nullptr), TB_INVALID_ARGUMENT, "NULL for its event");
  CHECK_REFUSED(driver.api.device_query(driver.self, 0, nullptr, nullptr), TB_INVALID_ARGUMENT, "'key'");
  tb_event *event = nullptr;
  CHECK_REFUSED(driver.api.event_create(driver.self, 0, 8, &event), TB_INVALID_ARGUMENT, "unknown flags");
  CHECK(event == nullptr);
  CHECK(out == nullptr);
}

CASE(the_default_stream_is_not_the_callers_to_destroy) {
  LayeredDriver driver("validate");
  CHECK_REFUSED(driver.api.stream_destroy(driver.self, driver.default_stream()), TB_INVALID_ARGUMENT,
                "default stream of device 0");
}

CASE(closure_storage_is_ended_once_on_its_stream) {
  LayeredDriver driver("validate");
  tb_stream *stream = driver.create_stream(), *other = driver.create_stream();
  static std::atomic<int> runs{0};
  static const tb_closure closure = {sizeof(tb_closure), 0, "counts",
                                     [](void *, const tb_closure_context *) -> tb_status {
                                       ++runs;
                                       return TB_OK;
                                     },
                                     [](void *) {}};
  void *storage = nullptr;
  alignas(64) char mine[64];
  CHECK_EQUAL(driver.api.closure_reserve(driver.self, stream, 8, &storage), TB_OK);
  CHECK_REFUSED(driver.api.closure_commit(driver.self, stream, mine, &closure), TB_INVALID_ARGUMENT, "never reserved");
  CHECK_REFUSED(driver.api.closure_commit(driver.self, other, storage, &closure), TB_INVALID_ARGUMENT,
                "reserved it on");
  CHECK_REFUSED(driver.api.closure_commit(driver.self, stream, storage, nullptr), TB_INVALID_ARGUMENT, "'closure'");
  CHECK_REFUSED(driver.api.stream_destroy(driver.self, stream), TB_FAILED_PRECONDITION,
                "neither committed nor cancelled");
  CHECK_EQUAL(driver.api.closure_commit(driver.self, stream, storage, &closure), TB_OK);
  CHECK_REFUSED(driver.api.closure_commit(driver.self, stream, storage, &closure), TB_INVALID_ARGUMENT, "already");
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(runs.load(), 1);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, other), TB_OK);
}

CASE(freeing_under_queued_work_is_refused_until_the_program_waited) {
  LayeredDriver driver("validate");
  tb_stream *stream = driver.create_stream();
  void *block = driver.allocate(64);
  {
    Held held(driver, stream);
    CHECK_EQUAL(driver.set(stream, block, 64), TB_OK);
    CHECK_REFUSED(driver.api.mem_free(driver.self, 0, block), TB_FAILED_PRECONDITION, "while work queued on stream",
                  "mem_free_async");
  }
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  {
    Held later(driver, stream); // later work does not use the block
    CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
  }
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(an_event_or_another_stream_proves_that_work_is_complete) {
  LayeredDriver driver("validate");
  tb_stream *first = driver.create_stream(), *second = driver.create_stream();
  tb_event *event = driver.create_event(), *later = driver.create_event();
  for (const bool through_second : {false, true}) {
    void *block = driver.allocate(64);
    CHECK_EQUAL(driver.set(first, block, 64), TB_OK);
    CHECK_EQUAL(driver.api.event_record(driver.self, event, first), TB_OK);
    Held held(driver, first);
    if (through_second) {
      CHECK_EQUAL(driver.api.stream_wait_event(driver.self, second, event), TB_OK);
      CHECK_EQUAL(driver.api.event_record(driver.self, later, second), TB_OK);
      CHECK_EQUAL(driver.api.event_synchronize(driver.self, later), TB_OK);
    } else {
      CHECK_EQUAL(driver.api.event_synchronize(driver.self, event), TB_OK);
    }
    CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
  }
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  for (tb_event *one : {event, later}) CHECK_EQUAL(driver.api.event_destroy(driver.self, one), TB_OK);
  for (tb_stream *one : {first, second}) CHECK_EQUAL(driver.api.stream_destroy(driver.self, one), TB_OK);
}

CASE(a_failure_of_queued_work_is_still_reported_after_a_free_asked_the_stream) {
  LayeredDriver driver("validate");
  tb_stream *stream = driver.create_stream();
  void *block = driver.allocate(64);
  CHECK_EQUAL(driver.set(stream, block, 64), TB_OK);
  driver.submit(stream, [](const tb_closure_context *) -> tb_status { return TB_DATA_LOSS; });
  while (driver.api.mem_free(driver.self, 0, block) == TB_FAILED_PRECONDITION) std::this_thread::yield();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_DATA_LOSS);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(mappings_are_memory_and_reservations_are_not) {
  LayeredDriver driver("validate");
  uint64_t least = 0, recommended = 0;
  CHECK_EQUAL(driver.api.vmm_granularity(driver.self, 0, &least, &recommended), TB_OK);
  void *space = nullptr;
  tb_physical *physical = nullptr;
  tb_stream *stream = driver.default_stream();
  const int32_t device = 0;
  CHECK_EQUAL(driver.api.vmm_reserve(driver.self, 4 * least, 0, nullptr, &space), TB_OK);
  auto *base = static_cast<char *>(space);
  CHECK_EQUAL(driver.api.vmm_create(driver.self, 0, least, 0, &physical), TB_OK);
  CHECK_REFUSED(driver.set(stream, base, 1), TB_INVALID_ARGUMENT, "no memory of this driver");
  CHECK_REFUSED(driver.api.vmm_map(driver.self, base + 4 * least, least, physical, 0), TB_INVALID_ARGUMENT,
                "vmm_reserve");
  CHECK_REFUSED(driver.api.vmm_map(driver.self, base, 2 * least, physical, 0), TB_INVALID_ARGUMENT, "vmm_create");
  CHECK_EQUAL(driver.api.vmm_map(driver.self, base, least, physical, 0), TB_OK);
  CHECK_EQUAL(driver.api.vmm_map(driver.self, base + least, least, physical, 0), TB_OK);
  CHECK_EQUAL(driver.api.vmm_set_access(driver.self, base, 2 * least, &device, 1, 3), TB_OK);
  CHECK_EQUAL(driver.set(stream, base, 2 * least), TB_OK); // across both mappings
  CHECK_REFUSED(driver.set(stream, base + 1, 2 * least), TB_INVALID_ARGUMENT, "1 bytes past the end");
  CHECK_REFUSED(driver.api.vmm_release(driver.self, base, least), TB_INVALID_ARGUMENT, "Release the whole");
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.vmm_unmap(driver.self, base, 2 * least), TB_OK);
  CHECK_REFUSED(driver.set(stream, base, 1), TB_INVALID_ARGUMENT, "vmm_unmap");
  CHECK_EQUAL(driver.api.vmm_destroy(driver.self, physical), TB_OK);
  CHECK_REFUSED(driver.api.vmm_map(driver.self, base, least, physical, 0), TB_INVALID_ARGUMENT, "vmm_destroy");
  CHECK_EQUAL(driver.api.vmm_release(driver.self, base, 4 * least), TB_OK);
}

CASE(a_variable_ends_with_its_module) {
  LayeredDriver driver("validate");
  std::ifstream file(TB_TEST_KERNELS, std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  CHECK(!image.empty());
  tb_module *module = nullptr;
  void *variable = nullptr;
  uint64_t size = 0;
  CHECK_EQUAL(driver.api.module_load(driver.self, 0, image.data(), image.size(), nullptr, &module), TB_OK);
  CHECK_EQUAL(driver.api.module_global(driver.self, module, "tb_contract_answer", &variable, &size), TB_OK);
  CHECK_EQUAL(driver.set(driver.default_stream(), variable, size), TB_OK);
  CHECK_REFUSED(driver.set(driver.default_stream(), variable, size + 1), TB_INVALID_ARGUMENT, "past the end");
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  CHECK_EQUAL(driver.api.module_unload(driver.self, module), TB_OK);
  CHECK_REFUSED(driver.set(driver.default_stream(), variable, size), TB_INVALID_ARGUMENT, "module_unload");
  CHECK_REFUSED(driver.api.module_unload(driver.self, module), TB_INVALID_ARGUMENT, "module_unload");
}

CASE(named_pointers_of_a_launch_are_inside_its_arguments) {
  LayeredDriver driver("validate");
  std::ifstream file(TB_TEST_KERNELS, std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  tb_module *module = nullptr;
  tb_function *function = nullptr;
  CHECK_EQUAL(driver.api.module_load(driver.self, 0, image.data(), image.size(), nullptr, &module), TB_OK);
  CHECK_EQUAL(driver.api.module_function(driver.self, module, "tb_contract_index", &function), TB_OK);
  void *data = driver.allocate(64);
  const uint64_t size = sizeof data;
  const void *const value = &data;
  const auto launch = [&](tb_launch_argument argument) {
    const tb_launch_arguments arguments = {sizeof arguments, TB_EXTENSION_LAUNCH_ARGUMENTS, nullptr, &argument};
    tb_launch config = {sizeof config, 1, {1, 1, 1}, {1, 1, 1}, 0, &value, &size, &arguments};
    return driver.api.launch(driver.self, driver.default_stream(), function, &config);
  };
  const uint32_t inside[] = {0}, beyond[] = {4}, twice[] = {0, 0};
  CHECK_EQUAL(launch({TB_LAUNCH_ARGUMENT_POINTER, 0, nullptr}), TB_OK);
  CHECK_EQUAL(launch({TB_LAUNCH_ARGUMENT_STRUCT, 1, inside}), TB_OK);
  CHECK_REFUSED(launch({TB_LAUNCH_ARGUMENT_STRUCT, 1, beyond}), TB_INVALID_ARGUMENT, "a pointer at byte 4");
  CHECK_REFUSED(launch({TB_LAUNCH_ARGUMENT_STRUCT, 2, twice}), TB_INVALID_ARGUMENT, "offsets ascend");
  CHECK_REFUSED(launch({TB_LAUNCH_ARGUMENT_STRUCT, 1, nullptr}), TB_INVALID_ARGUMENT,
                "only a struct has pointer_count");
  CHECK_REFUSED(launch({TB_LAUNCH_ARGUMENT_VALUE, 1, inside}), TB_INVALID_ARGUMENT, "only a struct has pointer_count");
  CHECK_REFUSED(launch({7, 0, nullptr}), TB_INVALID_ARGUMENT, "of kind 7");
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, driver.default_stream()), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, data), TB_OK);
  CHECK_EQUAL(driver.api.module_unload(driver.self, module), TB_OK);
}

CASE(threads_that_use_it_rightly_are_never_refused) {
  LayeredDriver driver("validate");
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int place = 0; place < 4; ++place)
    threads.emplace_back([&] {
      const auto good = [&](tb_status status) { refused += status != TB_OK; };
      tb_stream *stream = driver.create_stream();
      for (int round = 0; round < 300; ++round) {
        void *block = driver.allocate(256);
        tb_event *event = driver.create_event();
        good(driver.set(stream, block, 256));
        good(driver.api.event_record(driver.self, event, stream));
        good(driver.api.event_synchronize(driver.self, event));
        good(driver.api.mem_free(driver.self, 0, block));
        good(driver.api.event_destroy(driver.self, event));
      }
      good(driver.api.stream_destroy(driver.self, stream));
    });
  for (auto &thread : threads) thread.join();
  CHECK_EQUAL(refused.load(), 0);
}
