// pairs.cpp -- measures over the driver without memory.
#include "replay/pairs.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "heap/heap.h"
#include "replay/emulated.h"

namespace tb::allocator {
namespace {

double run(Heap &heap, uint64_t size, tb_stream *stream, int pairs) {
  auto begin = std::chrono::steady_clock::now();
  for (int pair = 0; pair < pairs; ++pair) {
    void *pointer = nullptr;
    tb_block *block = nullptr;
    if (heap.allocate(size, stream, &pointer, &block) != TB_OK) throw std::runtime_error("the allocation failed");
    heap.deallocate(block);
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / pairs;
}

} // namespace

double pair_nanoseconds(uint64_t size, uint32_t threads, uint64_t history) {
  tb_driver driver(uint64_t{1} << 40, 0);
  std::vector<tb_stream> streams(threads, tb_stream{&driver});
  Driver mine{&emulated_api(), &driver};
  Configuration configuration;
  configuration.history = history;
  tb_device_info info{};
  info.total_memory = driver.capacity;
  Heap heap(mine, std::make_unique<DeviceSource>(mine, 0), device_policy(configuration, info, true));
  for (tb_stream &stream : streams) run(heap, size, &stream, 100); // cached from here on
  double best = 1e9;
  if (threads == 1) {
    for (int repeat = 0; repeat < 300; ++repeat) best = std::min(best, run(heap, size, &streams[0], 2000));
  } else {
    constexpr int pairs = 200000;
    std::vector<double> times(threads);
    std::vector<std::thread> all;
    for (uint32_t number = 0; number < threads; ++number)
      all.emplace_back([&, number] { times[number] = run(heap, size, &streams[number], pairs); });
    for (std::thread &thread : all) thread.join();
    best = 0;
    for (double time : times) best += time / threads;
  }
  heap.empty_cache();
  heap.shutdown();
  return best;
}

} // namespace tb::allocator
