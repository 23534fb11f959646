// The NPU driver on the simulated libascendcl from many threads at once, for the sanitizers.
#define TB_TEST_OWN_MAIN
#include <dlfcn.h>

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "drivers/npu/npu_driver.h"
#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::OpenedDriver;

namespace {

constexpr uint64_t byte_count = 1 << 14, granule_bytes = 2 << 20;
constexpr const char *library = TB_TEST_ASCENDCL;

struct Npu : OpenedDriver {
  Npu() : OpenedDriver(test::Options{{"library", library}}) {}
  void ok(tb_status status) {
    if (status != TB_OK) throw std::runtime_error(test::take_error());
  }
};

uint64_t alive() {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  using Live = uint64_t (*)(char *, uint64_t);
  Live live;
  void *symbol = dlsym(handle, "tb_simnpu_live");
  std::memcpy(&live, &symbol, sizeof live);
  char text[512];
  const uint64_t count = live(text, sizeof text);
  if (count) std::fprintf(stderr, "alive: %s\n", text);
  return count;
}

// Runs `body(number)` on eight threads and gives the number of those that failed.
template <class Body> int failures_of_eight(Body body) {
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number)
    threads.emplace_back([&, number] {
      try {
        body(number);
      } catch (const std::exception &error) {
        std::fprintf(stderr, "thread %d: %s\n", number, error.what());
        ++failed;
      }
    });
  for (std::thread &thread : threads) thread.join();
  return failed;
}

} // namespace

CASE(eight_threads_use_both_devices_and_one_stream) {
  {
    Npu npu;
    tb_stream *shared = npu.create_stream();
    tb_event *event = npu.create_event();
    const auto work = [&](int number) {
      const int32_t device = number % 2;
      tb_stream *own = npu.create_stream(device);
      void *pinned = nullptr;
      npu.ok(npu.api.mem_alloc_host(npu.self, device, byte_count, 0, &pinned));
      for (int round = 0; round < 20; ++round) {
        void *block = npu.allocate(byte_count, device);
        npu.ok(
            npu.api.mem_set(npu.self, device, own, block, 0x0102u * static_cast<uint32_t>(number), 4, byte_count / 4));
        npu.ok(npu.api.mem_copy(npu.self, device, own, pinned, block, byte_count, TB_COPY_DEVICE_TO_HOST));
        npu.ok(npu.api.event_record(npu.self, event, shared));
        npu.ok(npu.api.stream_wait_event(npu.self, own, event));
        npu.api.event_query(npu.self, event);
        std::array<char, 64> pageable = {};
        npu.ok(npu.api.mem_copy(npu.self, device, own, pageable.data(), block, 64, TB_COPY_DEVICE_TO_HOST));
        npu.ok(npu.api.stream_synchronize(npu.self, own));
        npu.ok(npu.api.mem_free(npu.self, device, block));
      }
      npu.ok(npu.api.stream_destroy(npu.self, own));
      npu.ok(npu.api.device_synchronize(npu.self, device));
      npu.ok(npu.api.mem_free_host(npu.self, pinned));
    };
    CHECK_EQUAL(failures_of_eight(work), 0);
    npu.ok(npu.api.event_destroy(npu.self, event));
    npu.ok(npu.api.stream_destroy(npu.self, shared));
  }
  CHECK_EQUAL(alive(), 0u);
}

CASE(eight_threads_map_memory_and_call_the_host) {
  {
    Npu npu;
    std::atomic<int> calls{0};
    const auto work = [&](int number) {
      const int32_t device = number % 2;
      tb_stream *stream = npu.create_stream(device);
      for (int round = 0; round < 5; ++round) {
        void *range = nullptr;
        tb_physical *physical = nullptr;
        npu.ok(npu.api.vmm_reserve(npu.self, 2 * granule_bytes, 0, nullptr, &range));
        npu.ok(npu.api.vmm_create(npu.self, device, granule_bytes, 0, &physical));
        npu.ok(npu.api.vmm_map(npu.self, range, granule_bytes, physical, 0));
        npu.ok(npu.api.vmm_destroy(npu.self, physical));
        npu.ok(npu.api.vmm_set_access(npu.self, range, granule_bytes, &device, 1, 3));
        npu.ok(npu.api.mem_set(npu.self, device, stream, range, 1, 1, granule_bytes));
        npu.ok(npu.api.stream_host_call(
            npu.self, stream, [](void *user, tb_status) { ++*static_cast<std::atomic<int> *>(user); }, &calls));
        npu.ok(npu.api.stream_synchronize(npu.self, stream));
        npu.ok(npu.api.vmm_unmap(npu.self, range, granule_bytes));
        npu.ok(npu.api.vmm_release(npu.self, range, 2 * granule_bytes));
      }
      npu.ok(npu.api.stream_destroy(npu.self, stream));
    };
    CHECK_EQUAL(failures_of_eight(work), 0);
    CHECK_EQUAL(calls.load(), 40);
  }
  CHECK_EQUAL(alive(), 0u);
}

CASE(drivers_are_opened_and_closed_while_others_work) {
  CHECK_EQUAL(failures_of_eight([](int number) {
                for (int round = 0; round < 10; ++round) {
                  static std::mutex opening; // guards the options, which the test host keeps in one place
                  std::unique_ptr<Npu> npu;
                  {
                    std::lock_guard lock(opening);
                    npu = std::make_unique<Npu>();
                  }
                  void *block = npu->allocate(byte_count, number % 2);
                  tb_stream *stream = npu->default_stream(number % 2);
                  npu->ok(npu->api.mem_set(npu->self, number % 2, stream, block, 1, 1, byte_count));
                  npu->ok(npu->api.stream_synchronize(npu->self, stream));
                  npu->ok(npu->api.mem_free(npu->self, number % 2, block));
                }
              }),
              0);
  CHECK_EQUAL(alive(), 0u);
}

int main(int argument_count, char **arguments) {
  test::entry = tb_npu_driver_open_v1;
  return check::main(argument_count, arguments);
}
