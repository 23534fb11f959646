// test_thread_caches.cpp -- the promises of thread caches: exact statistics, stream order, and memory that is returned.
#include <barrier>
#include <cstring>
#include <random>
#include <sstream>
#include <thread>
#include <unordered_map>

#include "fake_driver.h"
#include "heap/heap.h"

namespace {

using tb::allocator::Heap;
using tb::allocator::MiB;

Heap make_heap(bool caches, uint64_t history = 0) {
  tb::Driver driver{&fake::api, nullptr};
  tb::allocator::HeapPolicy policy;
  policy.growing = true;
  policy.small_limit = tb::allocator::paged_small_limit;
  policy.total_memory = fake::world.capacity;
  policy.thread_caches = caches;
  policy.history = history;
  return Heap(driver, std::make_unique<tb::allocator::DeviceSource>(driver, 0), policy);
}

tb_block *make(Heap &heap, uint64_t size, tb_stream *stream) {
  void *pointer = nullptr;
  tb_block *block = nullptr;
  CHECK(heap.allocate(size, stream, &pointer, &block) == TB_OK && pointer == block->pointer);
  return block;
}

tb_allocator_statistics read(Heap &heap) {
  tb_allocator_statistics all{};
  heap.statistics(&all);
  return all;
}

void finish(Heap &heap) {
  fake::complete_all();
  CHECK(heap.empty_cache() == TB_OK);
  tb_allocator_statistics end = read(heap);
  CHECK(end.reserved_bytes[0].current == 0 && end.active[0].current == 0 && end.inactive_split[0].current == 0);
  CHECK(end.inactive_split_bytes[0].current == 0 && end.requested_bytes[0].current == 0);
  heap.shutdown();
  CHECK(fake::world.used == 0);
}

// Compares the statistics that do not depend on where free blocks are cached: the sums over both pools.
bool same(const tb_allocator_statistics &one, const tb_allocator_statistics &other) {
  auto equal = [](auto &left, auto &right) { return memcmp(&left[0], &right[0], sizeof left[0]) == 0; };
  return equal(one.allocation, other.allocation) && equal(one.active, other.active) &&
         equal(one.allocated_bytes, other.allocated_bytes) && equal(one.active_bytes, other.active_bytes) &&
         equal(one.requested_bytes, other.requested_bytes);
}

void one_thread_reads_the_figures_of_a_heap_without_caches() {
  Heap heaps[] = {make_heap(true), make_heap(false)};
  tb_stream *streams[tb::allocator::ThreadCache::most_streams + 2]; // more than a cache has lists for
  for (tb_stream *&stream : streams) stream = fake::new_stream();
  std::mt19937_64 random(5);
  std::vector<tb_block *> live[2];
  for (int step = 0; step < 20000; ++step) {
    uint64_t choice = random() % 100, size = 1 + random() % (random() % 4 ? 6000 : 200000), place = random();
    tb_stream *stream = streams[random() % (choice % 2 ? std::size(streams) : 2)];
    for (int which : {0, 1}) {
      auto &mine = live[which];
      if (choice < 49 || mine.empty()) {
        mine.push_back(make(heaps[which], size, stream));
      } else if (choice < 97) {
        std::swap(mine[place % mine.size()], mine.back());
        heaps[which].deallocate(mine.back());
        mine.pop_back();
      } else if (choice == 97) {
        heaps[which].reset_peak();
      } else if (choice == 98) {
        heaps[which].reset_accumulated();
      } else if (place % 50 == 0) {
        CHECK(heaps[which].empty_cache() == TB_OK);
      }
    }
    if (choice < 3) CHECK(same(read(heaps[0]), read(heaps[1])));
  }
  for (int which : {0, 1})
    for (tb_block *block : live[which]) heaps[which].deallocate(block);
  CHECK(same(read(heaps[0]), read(heaps[1])));
  for (Heap &heap : heaps) {
    CHECK(heap.empty_cache() == TB_OK);
    heap.shutdown();
  }
  CHECK(fake::world.used == 0);
}

void idle_threads_leave_exact_figures() {
  constexpr int threads = 8, rounds = 20;
  Heap heap = make_heap(true);
  std::vector<tb_stream *> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(fake::new_stream());
  std::atomic<int64_t> count{0}, bytes{0}, requested{0}, made{0};
  std::barrier rest(threads + 1);
  std::vector<std::thread> all;
  for (int number = 0; number < threads; ++number)
    all.emplace_back([&, number] {
      std::mt19937_64 random(static_cast<uint64_t>(number));
      std::vector<tb_block *> mine;
      auto give_back = [&](size_t index) {
        std::swap(mine[index], mine.back());
        --count;
        bytes -= static_cast<int64_t>(mine.back()->size);
        requested -= static_cast<int64_t>(mine.back()->requested);
        heap.deallocate(mine.back());
        mine.pop_back();
      };
      for (int round = 0; round < rounds; ++round) {
        for (int step = 0; step < 300; ++step) {
          if (random() % 2 || mine.empty()) {
            uint64_t size = 1 + random() % 5000;
            mine.push_back(make(heap, size, streams[random() % 4]));
            ++count;
            ++made;
            bytes += static_cast<int64_t>(mine.back()->size);
            requested += static_cast<int64_t>(size);
          } else {
            give_back(random() % mine.size());
          }
        }
        rest.arrive_and_wait();
        rest.arrive_and_wait();
      }
      while (!mine.empty()) give_back(0);
    });
  for (int round = 0; round < rounds; ++round) {
    rest.arrive_and_wait();
    tb_allocator_statistics now = read(heap);
    CHECK(now.allocation[0].current == count && now.active[0].current == count);
    CHECK(now.allocated_bytes[0].current == bytes && now.active_bytes[1].current == bytes);
    CHECK(now.requested_bytes[0].current == requested);
    CHECK(now.allocation[0].allocated == made && now.allocation[0].freed == made - count);
    CHECK(now.allocated_bytes[0].peak >= bytes);
    CHECK(now.reserved_bytes[0].current == bytes + now.inactive_split_bytes[0].current);
    rest.arrive_and_wait();
  }
  for (std::thread &thread : all) thread.join();
  finish(heap);
}

void a_cache_that_serves_nothing_rests_and_is_tried_again() {
  using tb::allocator::ThreadCache;
  Heap heap = make_heap(true);
  tb_stream *stream = fake::new_stream();
  tb_block *neighbour = make(heap, 1000, stream);
  auto caches = [&] {
    tb_block *block = make(heap, 1000, stream);
    heap.deallocate(block);
    return tb::allocator::is_cached(block);
  };
  std::vector<tb_block *> live;
  auto want_memory = [&] { // needs more than a segment of small blocks has, so the heap empties all caches
    for (uint64_t bytes = 0; bytes <= 2 * MiB; bytes += ThreadCache::largest)
      live.push_back(make(heap, ThreadCache::largest, stream));
  };
  auto lose = [&](uint32_t times) {
    for (uint32_t i = 0; i < times; ++i) {
      CHECK(caches());
      CHECK(heap.empty_cache() == TB_OK); // does not count as a loss of the cache
      CHECK(caches());
      want_memory();
    }
  };
  for (uint32_t rest : {ThreadCache::shortest_rest, 2 * ThreadCache::shortest_rest}) {
    lose(ThreadCache::most_losses);
    for (uint32_t i = 0; i < rest; ++i) CHECK(!caches());
  }
  for (int i = 0; i < 10; ++i) CHECK(caches());
  want_memory(); // the cache has been used meanwhile, so this is no loss
  lose(ThreadCache::most_losses);
  for (uint32_t i = 0; i < ThreadCache::shortest_rest; ++i) CHECK(!caches());
  CHECK(caches());
  live.push_back(neighbour);
  for (tb_block *block : live) heap.deallocate(block);
  CHECK(heap.empty_cache() == TB_OK);
  heap.shutdown();
  CHECK(fake::world.used == 0);
}

void another_threads_free_keeps_the_streams_apart() {
  Heap heap = make_heap(true);
  tb_stream *one = fake::new_stream(), *two = fake::new_stream();
  one->queued = 1; // work that is not done yet
  tb_block *block = make(heap, 700, one);
  void *pointer = block->pointer;
  std::thread([&] {
    heap.deallocate(block);
    tb_block *other = make(heap, 700, two);
    CHECK(other->pointer != pointer);
    tb_block *again = make(heap, 700, one);
    CHECK(again->pointer == pointer);
    for (tb_block *each : {other, again}) heap.deallocate(each);
  }).join();
  finish(heap);
}

void a_consumers_frees_reach_the_producer() {
  Heap heap = make_heap(true);
  tb_stream *stream = fake::new_stream();
  for (int round = 0; round < 50; ++round) {
    std::vector<tb_block *> blocks;
    for (int i = 0; i < 1000; ++i) blocks.push_back(make(heap, 2000, stream));
    std::thread([&] {
      for (tb_block *block : blocks) heap.deallocate(block);
    }).join();
  }
  CHECK(read(heap).reserved_bytes[0].peak == 2 * static_cast<int64_t>(MiB)); // the memory that one round needs
  finish(heap);
}

void the_end_of_a_thread_gives_its_blocks_back() {
  Heap heap = make_heap(true);
  tb_stream *stream = fake::new_stream();
  tb_block *first = make(heap, 700, stream), *second = make(heap, 700, stream);
  char *start = first->pointer;
  std::barrier freed(2), looked(2);
  std::thread other([&] {
    for (tb_block *block : {first, second}) heap.deallocate(block);
    freed.arrive_and_wait();
    looked.arrive_and_wait();
  });
  freed.arrive_and_wait();
  tb_block *meanwhile = make(heap, 700, stream);
  CHECK(meanwhile->pointer > start + 1024); // the other thread's cached blocks are not available yet
  CHECK(!heap.find(start));
  looked.arrive_and_wait();
  other.join();
  tb_block *merged = make(heap, 2048, stream);
  CHECK(merged->pointer == start);
  for (tb_block *block : {meanwhile, merged}) heap.deallocate(block);
  finish(heap);
}

void memory_that_runs_out_is_taken_from_the_caches_of_all_threads() {
  Heap heap = make_heap(true);
  tb_stream *stream = fake::new_stream();
  heap.set_limit(2 * MiB); // one page
  std::barrier step(2);
  std::vector<tb_block *> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(make(heap, 32 << 10, stream));
  std::thread other([&] {
    for (tb_block *block : blocks) heap.deallocate(block);
    step.arrive_and_wait();
    step.arrive_and_wait(); // the thread is alive during the checks below
  });
  step.arrive_and_wait();
  CHECK(read(heap).inactive_split[0].current > 1); // there would be one if the blocks were merged
  heap.deallocate(make(heap, 2 * MiB, stream));
  CHECK(heap.empty_cache() == TB_OK && read(heap).reserved_bytes[0].current == 0);
  step.arrive_and_wait();
  other.join();
  finish(heap);
}

void a_pause_and_a_failure_are_reported_although_a_block_is_cached() {
  Heap heap = make_heap(true);
  tb_stream *own = fake::new_stream(), *user = fake::new_stream();
  tb_block *block = make(heap, 700, own);
  heap.deallocate(block);
  CHECK(heap.pause(false) == TB_OK);
  void *pointer = nullptr;
  CHECK(heap.allocate(700, own, &pointer, &block) == TB_FAILED_PRECONDITION);
  CHECK(heap.resume() == TB_OK);
  heap.deallocate(make(heap, 700, own));
  tb_block *used = make(heap, 5000, own);
  CHECK(heap.record_stream(used, user) == TB_OK);
  fake::world.query_failure = TB_INTERNAL;
  heap.deallocate(used);
  heap.deallocate(make(heap, 700, own)); // queries no events
  CHECK(heap.allocate(30 * MiB, own, &pointer, &block) == TB_INTERNAL);
  // A failure of queued work that is found although there is enough memory.
  user->queued = 1;
  heap.deallocate(make(heap, MiB, user));
  fake::world.query_failure = TB_INTERNAL;
  heap.deallocate(make(heap, MiB, own));
  CHECK(heap.allocate(700, own, &pointer, &block) == TB_INTERNAL);
  heap.deallocate(make(heap, 700, own));
  finish(heap);
}

void a_block_that_is_freed_twice_stays_cached_once() {
  Heap heap = make_heap(true);
  tb_stream *stream = fake::new_stream();
  tb_block *block = make(heap, 700, stream);
  heap.deallocate(block);
  heap.deallocate(block);
  CHECK(heap.record_stream(block, stream) == TB_INVALID_ARGUMENT);
  CHECK(read(heap).allocation[0].current == 0);
  tb_block *one = make(heap, 700, stream), *other = make(heap, 700, stream);
  CHECK(one->pointer != other->pointer);
  for (tb_block *each : {one, other}) heap.deallocate(each);
  finish(heap);
}

// For each address every allocation is followed by its free, whichever thread freed it.
void the_history_of_all_threads_is_in_order() {
  constexpr uint64_t threads = 4, steps = 3000;
  Heap heap = make_heap(true, 1 << 16);
  tb_stream *stream = fake::new_stream();
  std::mutex mutex;
  std::vector<tb_block *> shared;
  std::vector<std::thread> all;
  for (uint64_t number = 0; number < threads; ++number)
    all.emplace_back([&, number] {
      std::mt19937_64 random(number);
      for (uint64_t step = 0; step < steps; ++step) {
        tb_block *mine = make(heap, 1 + random() % 3000, stream), *freed;
        {
          std::lock_guard guard(mutex);
          shared.push_back(mine);
          std::swap(shared[random() % shared.size()], shared.back());
          freed = shared.back();
          shared.pop_back();
        }
        heap.deallocate(freed);
      }
    });
  for (std::thread &thread : all) thread.join();
  std::istringstream log(heap.rmm_log());
  std::string line;
  std::getline(log, line); // the header
  std::unordered_map<std::string, bool> live;
  uint64_t events = 0;
  for (; std::getline(log, line); ++events) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    bool allocates = cells[2] == "allocate";
    CHECK(live[cells[3]] != allocates);
    live[cells[3]] = allocates;
  }
  CHECK(events == 2 * threads * steps);
  heap.resize_history(100); // is rounded up to 128
  for (int i = 0; i < 1000; ++i) heap.deallocate(make(heap, 700, stream));
  std::string last = heap.rmm_log();
  CHECK(std::count(last.begin(), last.end(), '\n') == 1 + 128);
  finish(heap);
}

} // namespace

int main() {
  fake::install();
  one_thread_reads_the_figures_of_a_heap_without_caches();
  idle_threads_leave_exact_figures();
  a_cache_that_serves_nothing_rests_and_is_tried_again();
  another_threads_free_keeps_the_streams_apart();
  a_consumers_frees_reach_the_producer();
  the_end_of_a_thread_gives_its_blocks_back();
  memory_that_runs_out_is_taken_from_the_caches_of_all_threads();
  a_pause_and_a_failure_are_reported_although_a_block_is_cached();
  a_block_that_is_freed_twice_stays_cached_once();
  the_history_of_all_threads_is_in_order();
}
