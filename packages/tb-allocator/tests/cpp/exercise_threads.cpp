// exercise_threads.cpp -- random operations of several threads on one allocator, and the map that they are checked
// against. Any thread may free any block.
#include <barrier>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "exercise.h"
#include "heap/heap.h"
#include "replay/emulated.h"

namespace tb::allocator {
namespace {

constexpr uint64_t capacity = uint64_t{96} << 20;
constexpr size_t most_live = 4000;
constexpr uint64_t round_length = 500; // operations of a thread between two checks of the statistics

struct Live {
  tb_block *block;
  uint64_t start, size, requested;
};

struct Exercise {
  tb_driver driver{capacity, 0};
  std::vector<tb_stream> streams{4, tb_stream{&driver}};
  std::unique_ptr<Heap> heap;
  std::mutex mutex; // guards the members below
  std::vector<Live> all;
  std::map<uint64_t, uint64_t> ends; // of live blocks, start -> end
  int64_t bytes = 0, requested = 0, made = 0;
  ExerciseResult result;

  Exercise() {
    Driver mine{&emulated_api(), &driver};
    HeapPolicy policy;
    policy.growing = true;
    policy.small_limit = paged_small_limit;
    policy.total_memory = capacity;
    policy.history = 1 << 12;
    heap = std::make_unique<Heap>(mine, std::make_unique<DeviceSource>(mine, 0), policy);
  }

  static void require(bool holds, const char *promise) {
    if (!holds) [[unlikely]]
      throw std::logic_error(promise);
  }

  static uint64_t some_size(std::mt19937_64 &random) {
    uint64_t kind = random() % 16;
    if (kind < 10) return 1 + random() % 2000;
    if (kind < 14) return 1 + random() % 50000;
    return kind == 14 ? 1 + random() % MiB : 1 + random() % (6 * MiB);
  }

  void allocate(std::mt19937_64 &random) {
    Live live{nullptr, 0, 0, some_size(random)};
    void *pointer = nullptr;
    tb_status status = heap->allocate(live.requested, &streams[random() % streams.size()], &pointer, &live.block);
    if (status == TB_OUT_OF_MEMORY) {
      for (int freed = 0; freed < 100; ++freed) free(random);
      std::lock_guard guard(mutex);
      ++result.out_of_memory;
      return;
    }
    require(status == TB_OK && pointer == live.block->pointer, "an allocation succeeds or runs out of memory");
    live.start = reinterpret_cast<uint64_t>(pointer);
    live.size = live.block->size;
    require(live.size >= live.requested && live.start % unit == 0, "blocks are aligned and large enough");
    std::lock_guard guard(mutex);
    auto after = ends.lower_bound(live.start);
    require(after == ends.end() || after->first >= live.start + live.size, "live blocks do not overlap");
    require(after == ends.begin() || std::prev(after)->second <= live.start, "live blocks do not overlap");
    ends.emplace_hint(after, live.start, live.start + live.size);
    bytes += static_cast<int64_t>(live.size);
    requested += static_cast<int64_t>(live.requested);
    ++made;
    all.push_back(live);
  }

  void free(std::mt19937_64 &random) {
    Live live;
    {
      std::lock_guard guard(mutex);
      if (all.empty()) return;
      std::swap(all[random() % all.size()], all.back());
      live = all.back();
      all.pop_back();
      ends.erase(live.start);
      bytes -= static_cast<int64_t>(live.size);
      requested -= static_cast<int64_t>(live.requested);
    }
    heap->deallocate(live.block);
  }

  // Called while no other thread runs operations.
  void check_statistics() {
    tb_allocator_statistics now{};
    heap->statistics(&now);
    auto count = static_cast<int64_t>(all.size());
    require(now.allocation[0].current == count && now.active[0].current == count, "statistics count what is live");
    require(now.allocation[0].allocated == made && now.allocation[0].freed == made - count,
            "statistics count what was allocated and freed");
    require(now.allocated_bytes[0].current == bytes, "statistics have the bytes that are live");
    require(now.requested_bytes[0].current == requested, "statistics have the bytes that were asked for");
    require(now.reserved_bytes[0].current == static_cast<int64_t>(driver.used), "statistics have what is reserved");
    require(now.reserved_bytes[0].current >= bytes + now.inactive_split_bytes[0].current &&
                now.inactive_split_bytes[0].current >= 0,
            "statistics add up");
  }

  void run(uint64_t operations, uint64_t seed, uint32_t threads) {
    std::barrier rest(static_cast<ptrdiff_t>(threads));
    uint64_t rounds = operations / threads / round_length + 1;
    std::atomic<bool> broken{false};
    auto work = [&](uint32_t number) {
      std::mt19937_64 random(seed * threads + number);
      auto guarded = [&](auto body) {
        if (broken) return;
        try {
          body();
        } catch (const std::logic_error &promise) {
          std::lock_guard guard(mutex);
          result.broken = promise.what();
          broken = true;
        }
      };
      for (uint64_t round = 0; round < rounds; ++round) {
        guarded([&] {
          if (number == 1 % threads && round % 8 == 7) require(heap->empty_cache() == TB_OK, "empty_cache succeeds");
          for (uint64_t step = 0; step < round_length; ++step)
            if (random() % 9 < 5 && all_size() < most_live)
              allocate(random);
            else
              free(random);
        });
        rest.arrive_and_wait();
        if (number == 0) guarded([&] { check_statistics(); });
        rest.arrive_and_wait();
      }
    };
    std::vector<std::thread> running;
    for (uint32_t number = 0; number < threads; ++number) running.emplace_back(work, number);
    for (std::thread &thread : running) thread.join();
    if (broken) {
      heap.release(); // the records are inconsistent: destroying the heap could crash
      return;
    }
    try {
      std::mt19937_64 random(seed);
      while (!all.empty()) free(random);
      require(heap->empty_cache() == TB_OK, "empty_cache succeeds");
      check_statistics();
      require(driver.used == 0, "everything comes back");
    } catch (const std::logic_error &promise) {
      result.broken = promise.what();
      heap.release();
      return;
    }
    heap->shutdown();
  }

  size_t all_size() {
    std::lock_guard guard(mutex);
    return all.size();
  }
};

} // namespace

ExerciseResult exercise_threads(uint64_t operations, uint64_t seed, uint32_t threads) {
  Exercise all;
  all.run(operations, seed, threads);
  all.result.allocations = static_cast<uint64_t>(all.made);
  all.result.pages_mapped = all.driver.calls[tb_driver::map];
  all.result.waits = all.driver.calls[tb_driver::wait];
  all.result.synchronisations = all.driver.calls[tb_driver::sync];
  return all.result;
}

} // namespace tb::allocator
