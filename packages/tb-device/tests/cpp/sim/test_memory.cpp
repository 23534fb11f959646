// The sim driver's memory: isolated, poisoned, guarded, limited.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/sim/opened_sim.h"

using test::Gate;
using test::OpenedSim;
using test::Options;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true; // the sanitizers' fault handlers and forks conflict with the driver's
#else
constexpr bool sanitized = false;
#endif

namespace {

std::vector<uint8_t> read(OpenedSim &driver, const void *address, size_t size, int32_t device = 0) {
  std::vector<uint8_t> bytes(size);
  tb_stream *stream = driver.default_stream(device);
  driver.ok(driver.api.mem_copy(driver.self, device, stream, bytes.data(), address, size, TB_COPY_DEVICE_TO_HOST));
  driver.ok(driver.api.stream_synchronize(driver.self, stream));
  return bytes;
}

bool all(const std::vector<uint8_t> &bytes, uint8_t value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](uint8_t byte) { return byte == value; });
}

uint64_t free_bytes(OpenedSim &driver, int32_t device = 0) {
  uint64_t free = 0, total = 0;
  driver.ok(driver.api.device_memory_info(driver.self, device, &free, &total));
  return free;
}

// Runs the body in a child process; gives its stderr and its exit status.
template <class Body> std::string stderr_of_child(Body body, int *out_signal) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[512];
  for (ssize_t size; (size = ::read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(size));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  *out_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return text;
}

} // namespace

CASE(fresh_memory_holds_poison_and_is_aligned_to_no_more_than_promised) {
  OpenedSim driver;
  std::set<uintptr_t> seen;
  for (uint64_t size : {0, 1, 63, 64, 65, 4097, 1 << 20}) {
    void *block = driver.allocate(size);
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(block) % 128, 64u);
    CHECK(seen.insert(reinterpret_cast<uintptr_t>(block)).second);
    CHECK(size == 0 || all(read(driver, block, size), 0xCB));
    driver.ok(driver.api.mem_free(driver.self, 0, block));
  }
}

CASE(freed_addresses_do_not_come_back_soon) {
  OpenedSim driver;
  std::set<void *> seen;
  for (int turn = 0; turn < 1000; ++turn) {
    void *block = driver.allocate(1024);
    CHECK(seen.insert(block).second);
    driver.ok(driver.api.mem_free(driver.self, 0, block));
  }
}

CASE(the_capacity_is_a_limit_and_comes_back) {
  OpenedSim driver(Options{{"capacity", "1MiB"}, {"devices", "3"}});
  const uint64_t start = free_bytes(driver);
  CHECK_EQUAL(start, uint64_t(1) << 20);
  for (int turn = 0; turn < 100; ++turn) { // many more than the addresses could hold at once
    void *large = driver.allocate(1 << 20), *out = &driver;
    CHECK_EQUAL(free_bytes(driver), 0u);
    CHECK_EQUAL(driver.api.mem_alloc(driver.self, 0, 1, 0, &out), TB_OUT_OF_MEMORY);
    CHECK(out == &driver);
    CHECK(test::take_error().find("1.00 MiB") != std::string::npos);
    driver.ok(driver.api.mem_free(driver.self, 0, large));
    CHECK_EQUAL(free_bytes(driver), start);
  }
  void *out = nullptr;
  for (uint64_t size : {UINT64_MAX, uint64_t(1) << 63, uint64_t(1) << 60, (uint64_t(1) << 20) + 1})
    CHECK_EQUAL(driver.api.mem_alloc(driver.self, 0, size, 0, &out), TB_OUT_OF_MEMORY);
}

CASE(bad_options_are_refused_with_a_text) {
  for (const auto &[key, value] : Options{{"capacity", "1 MiB"},
                                          {"devices", "9"},
                                          {"seed", "x"},
                                          {"isolated", "2"},
                                          {"latency", "-1"},
                                          {"bandwidth", "1TB"},
                                          {"idle", "0"}}) {
    tb_driver_api api;
    tb_driver *self = nullptr;
    CHECK_EQUAL(test::open(&api, &self, {{key, value}}), TB_INVALID_ARGUMENT);
    CHECK(test::take_error().find(key) != std::string::npos);
  }
}

CASE(a_write_past_a_block_is_reported_at_the_free) {
  OpenedSim driver;
  auto *block = static_cast<uint8_t *>(driver.allocate(100));
  tb_stream *stream = driver.create_stream(1);
  driver.submit(driver.default_stream(), [block] { block[103] = 1; });
  while (driver.api.stream_query(driver.self, driver.default_stream()) == TB_NOT_READY)
    continue; // a query does not check memory
  driver.ok(driver.api.mem_free(driver.self, 0, block));
  driver.ok(driver.api.device_synchronize(driver.self, 1)); // does not report the other device's problem
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_DATA_LOSS);
  const std::string text = test::take_error();
  CHECK(text.find("byte 103 of the block of 100 bytes") != std::string::npos);
  CHECK(text.find("schedule=") != std::string::npos);
  driver.ok(driver.api.device_synchronize(driver.self, 0)); // the problem is reported once
  driver.ok(driver.api.stream_destroy(driver.self, stream));
}

CASE(a_write_before_a_block_is_reported_at_the_next_synchronise) {
  OpenedSim driver;
  auto *block = static_cast<uint8_t *>(driver.allocate(100));
  driver.submit(driver.default_stream(), [block] { block[-1] = 1; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, driver.default_stream()), TB_DATA_LOSS);
  CHECK(test::take_error().find("the byte 1 before the block of 100 bytes") != std::string::npos);
  driver.ok(driver.api.mem_free(driver.self, 0, block));
  driver.ok(driver.api.device_synchronize(driver.self, 0));
  CHECK_EQUAL(driver.problems().size(), 1u);
}

CASE(copies_that_leave_their_block_or_take_the_wrong_side_are_refused) {
  OpenedSim driver;
  const auto &api = driver.api;
  tb_stream *stream = driver.default_stream();
  auto *block = static_cast<uint8_t *>(driver.allocate(100));
  void *other = driver.allocate(100, 1);
  uint8_t host[128] = {};
  const auto copy = [&](void *dst, const void *src, uint64_t size, int32_t kind) {
    return api.mem_copy(driver.self, 0, stream, dst, src, size, kind);
  };
  CHECK_EQUAL(copy(block, host, 101, TB_COPY_HOST_TO_DEVICE), TB_INVALID_ARGUMENT);
  CHECK(test::take_error().find("bytes 0 to 100 leave the block of 100 bytes") != std::string::npos);
  CHECK_EQUAL(copy(host, block + 60, 41, TB_COPY_DEVICE_TO_HOST), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(copy(host, host + 64, 8, TB_COPY_HOST_TO_DEVICE), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(copy(host, block, 8, TB_COPY_DEVICE_TO_DEVICE), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(copy(block, other, 8, TB_COPY_DEVICE_TO_DEVICE), TB_INVALID_ARGUMENT);
  CHECK(test::take_error().find("peer") != std::string::npos);
  driver.ok(api.peer_enable(driver.self, 0, 1));
  CHECK_EQUAL(copy(block, other, 8, TB_COPY_DEVICE_TO_DEVICE), TB_OK);
  driver.ok(api.peer_copy(driver.self, stream, other, 1, block, 0, 100));
  driver.ok(api.stream_synchronize(driver.self, stream));
  driver.ok(api.peer_disable(driver.self, 0, 1));
  CHECK_EQUAL(api.mem_free(driver.self, 0, block + 1), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(api.mem_free(driver.self, 0, other), TB_INVALID_ARGUMENT);
  driver.ok(api.mem_free(driver.self, 0, block));
  CHECK_EQUAL(api.mem_free(driver.self, 0, block), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(copy(host, block, 8, TB_COPY_DEVICE_TO_HOST), TB_INVALID_ARGUMENT);
  driver.ok(api.mem_free(driver.self, 1, other));
}

CASE(work_that_was_queued_before_a_free_reads_poison_and_is_reported) {
  OpenedSim driver(Options{{"seed", "0"}});
  void *block = driver.allocate(64);
  tb_stream *stream = driver.default_stream();
  std::vector<uint8_t> host(64, 1), behind(64, 1);
  driver.ok(driver.api.mem_set(driver.self, 0, stream, block, 7, 1, 64));
  driver.ok(driver.api.stream_synchronize(driver.self, stream));
  for (uint8_t *to : {host.data(), behind.data()})
    driver.ok(driver.api.mem_copy(driver.self, 0, stream, to, block, 64, TB_COPY_DEVICE_TO_HOST));
  driver.ok(driver.api.mem_free(driver.self, 0, block));
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_DATA_LOSS);
  CHECK(test::take_error().find("was freed before this work ran") != std::string::npos);
  CHECK(all(host, 0xDD));
  CHECK(all(behind, 1)); // work behind a failure is not run
  CHECK_EQUAL(driver.problems().size(), 1u);
}

CASE(stream_ordered_memory_is_given_back_in_order) {
  for (const char *seed : {"0", "1", "2", "3"}) {
    OpenedSim driver(Options{{"seed", seed}, {"capacity", "1MiB"}});
    tb_stream *stream = driver.create_stream();
    for (int turn = 0; turn < 20; ++turn) { // each block takes most of the capacity, without a synchronise
      void *block = nullptr;
      driver.ok(driver.api.mem_alloc_async(driver.self, stream, 800 << 10, 0, &block));
      driver.ok(driver.api.mem_set(driver.self, 0, stream, block, 3, 1, 800 << 10));
      driver.ok(driver.api.mem_free_async(driver.self, stream, block));
    }
    driver.ok(driver.api.stream_synchronize(driver.self, stream));
    CHECK_EQUAL(free_bytes(driver), uint64_t(1) << 20);
    driver.ok(driver.api.mem_free_async(driver.self, stream, nullptr));
    driver.ok(driver.api.stream_destroy(driver.self, stream));
    CHECK(driver.problems().empty());
  }
}

CASE(functions_may_touch_device_memory_while_they_run) {
  OpenedSim driver;
  auto *block = static_cast<uint8_t *>(driver.allocate(4096));
  Gate gate;
  tb_stream *stream = driver.create_stream();
  driver.submit(stream, [&] { gate.pass(); });
  driver.submit(driver.default_stream(), [block] { std::memset(block, 5, 4096); });
  driver.ok(driver.api.stream_host_call(
      driver.self, driver.default_stream(), [](void *user, tb_status) { ++*static_cast<uint8_t *>(user); }, block));
  auto *later = static_cast<uint8_t *>(driver.allocate(32 << 20)); // addresses that were not in use when the gate began
  driver.submit(driver.default_stream(), [later] { later[(32 << 20) - 1] = 9; });
  driver.ok(driver.api.stream_synchronize(driver.self, driver.default_stream()));
  gate.open();
  driver.ok(driver.api.stream_synchronize(driver.self, stream));
  CHECK_EQUAL(int(read(driver, block, 2)[0]), 6);
  CHECK_EQUAL(int(read(driver, later + (32 << 20) - 1, 1)[0]), 9);
  driver.ok(driver.api.mem_free(driver.self, 0, block));
  driver.ok(driver.api.mem_free(driver.self, 0, later));
  driver.ok(driver.api.stream_destroy(driver.self, stream));
}

CASE(a_host_access_faults_and_says_which_block) {
  if (sanitized) return CHECK(sanitized);
  int signal = 0;
  const std::string text = stderr_of_child(
      [] {
        OpenedSim driver;
        auto *block = static_cast<volatile uint8_t *>(driver.allocate(1000));
        block[10] = 1;
      },
      &signal);
  CHECK_EQUAL(signal, SIGSEGV);
  CHECK(text.find("byte 10 of the block of 1000 bytes") != std::string::npos);
  CHECK(text.find("Copy it to host memory first") != std::string::npos);
  const std::string silent = stderr_of_child(
      [] {
        OpenedSim driver(Options{{"fault_text", "0"}});
        static_cast<volatile uint8_t *>(driver.allocate(1000))[10] = 1;
      },
      &signal);
  CHECK_EQUAL(signal, SIGSEGV);
  CHECK(silent.empty());
  const std::string mapped = stderr_of_child(
      [] {
        OpenedSim driver;
        void *range = nullptr;
        tb_physical *physical = nullptr;
        const int32_t device = 1;
        driver.ok(driver.api.vmm_reserve(driver.self, 65536, 0, nullptr, &range));
        driver.ok(driver.api.vmm_create(driver.self, device, 65536, 0, &physical));
        driver.ok(driver.api.vmm_map(driver.self, range, 65536, physical, 0));
        driver.ok(driver.api.vmm_set_access(driver.self, range, 65536, &device, 1, 3));
        *static_cast<volatile uint8_t *>(range) = 1;
      },
      &signal);
  CHECK_EQUAL(signal, SIGSEGV);
  CHECK(mapped.find("mapped memory of device 1") != std::string::npos);
}

CASE(the_handler_before_ours_is_kept) {
  if (sanitized) return CHECK(sanitized);
  int signal = 0;
  const std::string text = stderr_of_child(
      [] {
        struct sigaction action = {};
        action.sa_handler = [](int) {
          [[maybe_unused]] const ssize_t size = write(STDERR_FILENO, "theirs", 6);
          _exit(3);
        };
        sigaction(SIGSEGV, &action, nullptr);
        OpenedSim driver;
        static_cast<volatile uint8_t *>(driver.allocate(1000))[10] = 1;
      },
      &signal);
  CHECK_EQUAL(signal, 0);
  CHECK(text.find("byte 10") < text.find("theirs"));
}

CASE(memory_that_is_not_isolated_is_the_hosts_too) {
  OpenedSim driver(Options{{"isolated", "0"}});
  tb_device_info info = {};
  info.struct_size = sizeof info;
  driver.ok(driver.api.device_get_info(driver.self, 0, &info));
  CHECK_EQUAL(info.flags, uint32_t(TB_DEVICE_HOST_ACCESSIBLE));
  auto *block = static_cast<uint8_t *>(driver.allocate(64));
  CHECK_EQUAL(int(block[63]), 0xCB);
  block[0] = 8;
  CHECK_EQUAL(int(read(driver, block, 1)[0]), 8);
  driver.ok(driver.api.mem_free(driver.self, 0, block));
}

CASE(physical_memory_shows_the_same_bytes_wherever_it_is_mapped) {
  OpenedSim driver;
  const auto &api = driver.api;
  tb_driver *self = driver.self;
  uint64_t unit = 0, recommended = 0;
  driver.ok(api.vmm_granularity(self, 0, &unit, &recommended));
  void *range = nullptr;
  tb_physical *physical = nullptr, *second = nullptr;
  const uint64_t before = free_bytes(driver);
  driver.ok(api.vmm_reserve(self, 4 * unit, 0, nullptr, &range));
  auto *at = static_cast<uint8_t *>(range);
  driver.ok(api.vmm_create(self, 0, unit, 0, &physical));
  driver.ok(api.vmm_create(self, 0, unit, 0, &second));
  CHECK_EQUAL(free_bytes(driver), before - 2 * unit);
  driver.ok(api.vmm_map(self, at, unit, physical, 0));
  driver.ok(api.vmm_map(self, at + unit, unit, second, 0));
  driver.ok(api.vmm_map(self, at + 3 * unit, unit, physical, 0));
  tb_stream *stream = driver.default_stream();
  // Without access the work fails, and nothing crashes.
  driver.ok(api.mem_set(self, 0, stream, at, 1, 1, 16));
  CHECK_EQUAL(api.stream_synchronize(self, stream), TB_DATA_LOSS);
  CHECK(test::take_error().find("vmm_set_access") != std::string::npos);
  const int32_t device = 0;
  driver.ok(api.vmm_set_access(self, at, 2 * unit, &device, 1, 3));
  driver.ok(api.vmm_set_access(self, at + 3 * unit, unit, &device, 1, 1));
  driver.ok(api.mem_set(self, 0, stream, at + unit - 8, 4, 1, 16)); // across both mappings
  CHECK(all(read(driver, at + unit - 8, 16), 4));
  CHECK(all(read(driver, at + 4 * unit - 8, 8), 4));
  driver.ok(api.mem_set(self, 0, stream, at + 3 * unit, 1, 1, 1)); // access is read-only here
  CHECK_EQUAL(api.stream_synchronize(self, stream), TB_DATA_LOSS);
  driver.submit(stream, [at, unit] { ++at[unit - 1]; });
  CHECK_EQUAL(int(read(driver, at + unit - 1, 1)[0]), 5);
  CHECK_EQUAL(api.vmm_release(self, range, 4 * unit), TB_FAILED_PRECONDITION);
  driver.ok(api.vmm_destroy(self, physical));
  CHECK_EQUAL(api.vmm_destroy(self, physical), TB_INVALID_ARGUMENT);
  driver.ok(api.vmm_unmap(self, range, 4 * unit));
  driver.ok(api.vmm_destroy(self, second));
  CHECK_EQUAL(free_bytes(driver), before);
  driver.ok(api.vmm_release(self, range, 4 * unit));
}

CASE(pinned_memory_is_poisoned_when_freed_and_known_while_it_lives) {
  OpenedSim driver;
  void *block = nullptr;
  driver.ok(driver.api.mem_alloc_host(driver.self, 0, 256, 0, &block));
  std::memset(block, 1, 256);
  tb_pointer_info info = {};
  info.struct_size = sizeof info;
  driver.ok(driver.api.mem_get_info(driver.self, static_cast<uint8_t *>(block) + 9, &info));
  CHECK(info.base == block && info.size == 256 && info.kind == TB_POINTER_HOST_PINNED);
  driver.ok(driver.api.mem_free_host(driver.self, block));
  CHECK_EQUAL(driver.api.mem_get_info(driver.self, block, &info), TB_NOT_FOUND);
  CHECK_EQUAL(driver.api.mem_free_host(driver.self, block), TB_INVALID_ARGUMENT);
  char own[64];
  driver.ok(driver.api.mem_register_host(driver.self, 0, own, sizeof own, 0));
  CHECK_EQUAL(driver.api.mem_register_host(driver.self, 0, own + 8, 8, 0), TB_ALREADY_EXISTS);
  driver.ok(driver.api.mem_unregister_host(driver.self, own));
}

CASE(pitched_copies_leave_the_bytes_between_rows_alone) {
  OpenedSim driver;
  auto *block = static_cast<uint8_t *>(driver.allocate(64));
  tb_stream *stream = driver.default_stream();
  driver.ok(driver.api.mem_set(driver.self, 0, stream, block, 0, 1, 64));
  std::vector<uint8_t> host(12, 7);
  tb_copy_2d copy = {sizeof copy, TB_COPY_HOST_TO_DEVICE, block + 1, host.data(), 16, 3, 3, 4};
  driver.ok(driver.api.mem_copy_2d(driver.self, 0, stream, &copy));
  std::vector<uint8_t> want(64, 0);
  for (size_t row = 0; row < 4; ++row) std::fill_n(want.begin() + 1 + 16 * static_cast<long>(row), 3, uint8_t(7));
  CHECK(read(driver, block, 64) == want);
  copy = {sizeof copy, TB_COPY_DEVICE_TO_DEVICE, block + 2, block + 1, 16, 16, 3, 4}; // overlapping
  driver.ok(driver.api.mem_copy_2d(driver.self, 0, stream, &copy));
  for (size_t row = 0; row < 4; ++row) want[16 * row + 4] = 7;
  CHECK(read(driver, block, 64) == want);
  driver.ok(driver.api.mem_free(driver.self, 0, block));
}

CASE(a_wrapped_stream_is_the_same_queue) {
  OpenedSim driver;
  const auto &api = driver.api;
  tb_stream *stream = driver.create_stream(), *wrapper = nullptr;
  uint64_t native = 0, again = 0;
  driver.ok(api.stream_native(driver.self, stream, &native));
  driver.ok(api.stream_wrap(driver.self, 0, native, &wrapper));
  driver.ok(api.stream_native(driver.self, wrapper, &again));
  CHECK_EQUAL(native, again);
  CHECK_EQUAL(api.stream_wrap(driver.self, 0, 12345, &wrapper), TB_INVALID_ARGUMENT);
  std::vector<int> order;
  for (int turn = 0; turn < 10; ++turn)
    driver.submit(turn % 2 ? wrapper : stream, [&order, turn] { order.push_back(turn); });
  driver.ok(api.stream_destroy(driver.self, wrapper));
  driver.ok(api.stream_synchronize(driver.self, stream));
  CHECK(order == std::vector<int>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  CHECK_EQUAL(api.stream_synchronize(driver.self, wrapper), TB_INVALID_ARGUMENT);
  driver.ok(api.stream_destroy(driver.self, stream));
}
