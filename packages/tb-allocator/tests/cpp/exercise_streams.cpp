// exercise_streams.cpp -- random operations on several streams, and the map that they are checked against.
#include "exercise.h"

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>

#include "heap/heap.h"
#include "replay/emulated.h"

namespace tb::allocator {
namespace {

constexpr uint64_t capacity = uint64_t{256} << 20;
constexpr size_t most_live = 2000;
constexpr uint64_t lag = 40; // the number of operations by which streams lag behind

struct Live {
  tb_block *block;
  uint64_t start, size, requested;
};

struct Exercise {
  tb_driver driver{capacity, lag};
  std::vector<tb_stream> streams{4, tb_stream{&driver}};
  std::unique_ptr<Heap> heap;
  std::mt19937_64 random;
  std::vector<Live> all;
  std::map<uint64_t, uint64_t> ends; // of live blocks, start -> end
  struct Part {                      // a part of a page's memory that a live block uses
    uint64_t end, address;           // its end as an offset in the page; the page's address
  };
  std::map<std::pair<tb_physical *, uint64_t>, Part> parts; // by page and offset
  int64_t bytes = 0, requested = 0;
  ExerciseResult result;

  explicit Exercise(uint64_t seed) : random(seed) {
    Driver mine{&emulated_api(), &driver};
    HeapPolicy policy;
    policy.growing = true;
    policy.small_limit = paged_small_limit;
    policy.total_memory = capacity;
    heap = std::make_unique<Heap>(mine, std::make_unique<DeviceSource>(mine, 0), policy);
  }

  static void require(bool holds, const char *promise) {
    if (!holds) [[unlikely]]
      throw std::logic_error(promise);
  }

  template <class Visit> void each_part(const Live &live, Visit visit) {
    uint64_t end = live.start + live.size;
    for (uint64_t page = live.start / emulated_page * emulated_page; page < end; page += emulated_page)
      visit(driver.page_at(page), std::max(live.start, page) - page, Part{std::min(end - page, emulated_page), page});
  }

  uint64_t some_size() {
    switch (random() % 8) {
    case 0:
    case 1:
    case 2:
      return 1 + random() % 20000;
    case 3:
    case 4:
      return 1 + random() % MiB;
    case 5:
      return paged_small_limit - 256 + random() % 512;
    case 6:
      return 1 + random() % (12 * MiB);
    default:
      return uint64_t{1} << (random() % 24);
    }
  }

  void allocate() {
    Live live{nullptr, 0, 0, some_size()};
    void *pointer = nullptr;
    tb_status status = heap->allocate(live.requested, &streams[random() % streams.size()], &pointer, &live.block);
    if (status == TB_OUT_OF_MEMORY) {
      ++result.out_of_memory;
      for (size_t half = all.size() / 2; half-- > 0;) free(random() % all.size());
      return;
    }
    require(status == TB_OK && pointer == live.block->pointer, "an allocation succeeds or runs out of memory");
    ++result.allocations;
    live.start = reinterpret_cast<uint64_t>(pointer);
    live.size = live.block->size;
    require(live.size >= live.requested && live.start % unit == 0, "blocks are aligned and large enough");
    auto after = ends.lower_bound(live.start);
    require(after == ends.end() || after->first >= live.start + live.size, "live blocks do not overlap");
    require(after == ends.begin() || std::prev(after)->second <= live.start, "live blocks do not overlap");
    ends.emplace_hint(after, live.start, live.start + live.size);
    bool remapped = false;
    each_part(live, [&](tb_physical *page, uint64_t from, const Part &part) {
      require(page, "live blocks have memory");
      auto next = parts.lower_bound({page, from});
      if (next != parts.end() && next->first.first == page) {
        require(next->first.second >= part.end, "no memory belongs to two live blocks");
        remapped |= next->second.address != part.address;
      }
      if (next != parts.begin() && std::prev(next)->first.first == page) {
        require(std::prev(next)->second.end <= from, "no memory belongs to two live blocks");
        remapped |= std::prev(next)->second.address != part.address;
      }
      parts.emplace_hint(next, std::pair(page, from), part);
    });
    result.remapped += remapped;
    bytes += static_cast<int64_t>(live.size);
    requested += static_cast<int64_t>(live.requested);
    all.push_back(live);
  }

  void free(size_t index) {
    Live live = all[index];
    each_part(live, [&](tb_physical *page, uint64_t from, const Part &part) {
      auto known = parts.find({page, from});
      require(known != parts.end() && known->second.address == part.address, "a live block keeps its memory");
      parts.erase(known);
    });
    ends.erase(live.start);
    bytes -= static_cast<int64_t>(live.size);
    requested -= static_cast<int64_t>(live.requested);
    all[index] = all.back();
    all.pop_back();
    heap->deallocate(live.block);
  }

  void check_statistics() {
    tb_allocator_statistics now{};
    heap->statistics(&now);
    require(now.allocation[0].current == static_cast<int64_t>(all.size()), "statistics count what is live");
    require(now.allocated_bytes[0].current == bytes, "statistics have the bytes that are live");
    require(now.requested_bytes[0].current >= requested, "statistics have the bytes that were asked for");
    require(now.reserved_bytes[0].current == static_cast<int64_t>(driver.used), "statistics have what is reserved");
    require(now.reserved_bytes[0].current >= now.active_bytes[0].current + now.inactive_split_bytes[0].current &&
                now.inactive_split_bytes[0].current >= 0,
            "statistics add up");
  }

  void step() {
    ++driver.now;
    uint64_t choice = random() % 1000;
    if (choice < 510 && all.size() < most_live)
      allocate();
    else if (choice < 900 && !all.empty())
      free(random() % all.size());
    else if (choice < 960 && !all.empty())
      require(heap->record_stream(all[random() % all.size()].block, &streams[random() % streams.size()]) == TB_OK,
              "record_stream succeeds");
    else if (choice == 999 && random() % 100 == 0)
      require(heap->empty_cache() == TB_OK, "empty_cache succeeds");
    if (choice % 64 == 0) check_statistics();
  }

  void finish() {
    while (!all.empty()) free(all.size() - 1);
    require(heap->empty_cache() == TB_OK, "empty_cache succeeds");
    check_statistics();
    require(driver.used == 0, "everything comes back");
    heap->shutdown();
  }
};

} // namespace

ExerciseResult exercise_streams(uint64_t operations, uint64_t seed) {
  Exercise all(seed);
  uint64_t at = 0;
  try {
    for (; at < operations; ++at) all.step();
    all.finish();
  } catch (const std::logic_error &promise) {
    all.result.broken = std::string(promise.what()) + ": broken at operation " + std::to_string(at);
    all.heap.release(); // the records are inconsistent: destroying the heap could crash
  }
  all.result.pages_mapped = all.driver.calls[tb_driver::map];
  all.result.waits = all.driver.calls[tb_driver::wait];
  all.result.synchronisations = all.driver.calls[tb_driver::sync];
  return all.result;
}

} // namespace tb::allocator
