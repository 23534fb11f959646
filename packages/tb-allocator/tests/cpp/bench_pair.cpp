// bench_pair.cpp -- nanoseconds of a cached allocate and deallocate through the C table. Not a test.
//
//   meson setup build -Dnative_tests=true && meson compile -C build bench_pair && build/tests/cpp/bench_pair
#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "fake_driver.h"
#include "table/table.h"

namespace {

// The best of many short runs, which is least affected by other load of the machine.
double nanoseconds(int pairs, auto body) {
  double best = 1e9;
  for (int repeat = 0; repeat < 300; ++repeat) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < pairs; ++i) body(i);
    std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, passed.count() / pairs);
  }
  return best;
}

void pair(uint64_t size, tb_stream *stream) {
  void *pointer = nullptr;
  tb_block *block = nullptr;
  if (tb::allocator::allocator_table.allocate(0, size, stream, &pointer, &block) != TB_OK) abort();
  tb::allocator::allocator_table.deallocate(block);
}

} // namespace

int main() {
  fake::world.capacity = uint64_t{4} << 30;
  fake::install();
  tb_stream *stream = &fake::world.standard;
  constexpr int pairs = 2000;
  for (uint64_t size : {uint64_t{512}, uint64_t{64} << 10, uint64_t{4} << 20, uint64_t{64} << 20})
    printf("pair of %9llu bytes            %6.1f ns\n", static_cast<unsigned long long>(size),
           nanoseconds(pairs, [&](int) { pair(size, stream); }));

  std::mt19937_64 random(1);
  std::vector<uint64_t> sizes(4096);
  for (uint64_t &size : sizes) size = uint64_t{512} << random() % 14 | random() % 512; // to 4 MiB
  std::vector<tb_block *> live(256);
  printf("random sizes, 256 live blocks      %6.1f ns\n", nanoseconds(pairs, [&](int i) {
           tb_block *&block = live[static_cast<size_t>(i * 7) % live.size()];
           if (block) tb::allocator::allocator_table.deallocate(block);
           void *pointer = nullptr;
           if (tb::allocator::allocator_table.allocate(0, sizes[static_cast<size_t>(i) % sizes.size()], stream,
                                                       &pointer, &block))
             abort();
         }));
  for (tb_block *block : live) tb::allocator::allocator_table.deallocate(block);

  tb_stream *other = fake::new_stream();
  printf("pair of 512 bytes, one other stream%6.1f ns\n", nanoseconds(pairs, [&](int) {
           void *pointer = nullptr;
           tb_block *block = nullptr;
           if (tb::allocator::allocator_table.allocate(0, 512, stream, &pointer, &block)) abort();
           tb::allocator::allocator_table.record_stream(block, other);
           tb::allocator::allocator_table.deallocate(block);
         }));

  constexpr int many = 200000;
  auto begin = std::chrono::steady_clock::now();
  auto run = [&](tb_stream *mine) {
    for (int i = 0; i < many; ++i) pair(512, mine);
  };
  std::thread second(run, other);
  run(stream);
  second.join();
  std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - begin;
  printf("2 threads, own streams, a pair each %5.1f ns (mean, with all that the machine does)\n",
         passed.count() / many);
}
