// bench_history.cpp -- nanoseconds of a cached allocation and its free: bench_history SIZE THREADS EVENTS. Not a test.
//
// EVENTS is how many the history remembers, 0 for none. For one thread it prints the best of many short runs. Several
// threads use one allocator, each with a stream of its own; it prints their mean.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "heap/heap.h"
#include "replay/emulated_host.h"

namespace {

using tb::allocator::Heap;

double run(Heap &heap, uint64_t size, tb_stream *stream, int pairs) {
  auto begin = std::chrono::steady_clock::now();
  for (int pair = 0; pair < pairs; ++pair) {
    void *pointer = nullptr;
    tb_block *block = nullptr;
    if (heap.allocate(size, stream, &pointer, &block) != TB_OK) abort();
    heap.deallocate(block);
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / pairs;
}

double nanoseconds(uint64_t size, uint32_t threads, uint64_t events) {
  tb_driver driver(uint64_t{1} << 40, 0);
  std::vector<tb_stream> streams(threads, tb_stream{&driver});
  tb::Driver mine{&tb::allocator::emulated_api(), &driver};
  tb::allocator::Configuration configuration;
  configuration.history = events;
  tb_device_info info{};
  info.total_memory = driver.capacity;
  Heap heap(mine, std::make_unique<tb::allocator::DeviceSource>(mine, 0),
            tb::allocator::device_policy(configuration, info, true));
  for (tb_stream &stream : streams) run(heap, size, &stream, 100); // fills the cache
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

} // namespace

int main(int count, char **arguments) {
  if (count != 4) {
    fprintf(stderr, "usage: bench_history SIZE THREADS EVENTS\n");
    return 2;
  }
  tb::allocator::install_emulated_host();
  auto threads = static_cast<uint32_t>(strtoul(arguments[2], nullptr, 10));
  printf("%.3f\n", nanoseconds(strtoull(arguments[1], nullptr, 10), threads, strtoull(arguments[3], nullptr, 10)));
}
