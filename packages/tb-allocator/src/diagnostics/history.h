// history.h -- the last events of a heap, always recorded: pages of 48-byte records. Guarded by the heap's lock.
//
// Each writer, the heap and every thread cache, has a page of its own. A full page goes to a ring, in exchange for the
// oldest page there. So a thread needs the lock once for each page, and for a short time. Readers sort.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace tb::allocator {

enum class Action : uint32_t { allocate, free, free_requested, free_completed, map, unmap, out_of_memory };

struct HistoryEvent {
  uint64_t ticks;
  uint64_t address;
  uint64_t size;
  uint64_t stream;
  uint64_t place; // in the program, as the finder of places gives it; of out_of_memory: the bytes free at the driver
  Action action;
  uint32_t thread; // numbered by first use
};
static_assert(sizeof(HistoryEvent) == 48);

struct HistoryPage {
  static constexpr size_t capacity = 128;
  size_t used;
  std::array<HistoryEvent, capacity> events;
  bool full() const noexcept { return used == capacity; }
};

class History {
public:
  // Remembers so many events, rounded up to a power of two; 0 records nothing. Throws std::bad_alloc. Only a new
  // history may be resized.
  void resize(uint64_t events);

  void record(Action action, const void *address, uint64_t size, const void *stream,
              uint64_t free_at_driver = 0) noexcept {
    if (!page_) return;
    const uint64_t place = action == Action::out_of_memory ? free_at_driver : place_of(action);
    add({ticks(), reinterpret_cast<uint64_t>(address), size, reinterpret_cast<uint64_t>(stream), place, action,
         thread_number()});
  }

  // A page for a thread cache; NULL: nothing is recorded. Throws std::bad_alloc.
  HistoryPage *take_page();
  void return_page(HistoryPage *page) noexcept; // with its events
  HistoryPage *exchange(HistoryPage *full) noexcept {
    HistoryPage *&place = ring_[next_++ & (ring_size_ - 1)];
    HistoryPage *oldest = place ? place : &pages_[pages_used_++];
    place = full;
    oldest->used = 0;
    return oldest;
  }

  // The events of the ring and of the heap, without those on the pages of thread caches.
  std::vector<HistoryEvent> events() const;
  // Sorts all events, oldest first, and drops those that are too old to be remembered.
  void arrange(std::vector<HistoryEvent> *events) const;

  // Converts ticks of this history into microseconds since 1970, as exactly as the clocks were read at its start and
  // now.
  class Clock {
  public:
    explicit Clock(const History &history);
    int64_t microseconds(uint64_t at) const noexcept {
      return start_ + static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(at - first_)) * scale_);
    }

  private:
    uint64_t first_;
    int64_t start_;
    double scale_;
  };

  // Gives places numbers, on the thread that allocates or frees. It takes no lock of the allocator; NULL: there are none.
  using PlaceFinder = uint64_t (*)(int32_t frees);
  static inline std::atomic<PlaceFinder> place_finder{nullptr};
  static uint64_t place_of(Action action) noexcept {
    const PlaceFinder find = place_finder.load(std::memory_order_relaxed);
    return find ? find(action != Action::allocate && action != Action::map) : 0;
  }

  static uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc(); // a system clock takes as long as the rest of a cached allocation
#elif defined(__aarch64__)
    uint64_t value;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
  }
  static uint32_t thread_number() noexcept {
    if (!thread_) [[unlikely]]
      thread_ = ++threads_;
    return thread_ - 1;
  }

private:
  static inline std::atomic<uint32_t> threads_{0};
#if defined(__linux__)
  [[gnu::tls_model("initial-exec")]]
#endif
  static inline constinit thread_local uint32_t thread_ = 0; // its number plus one; 0: none yet

  static int64_t now() noexcept {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  void add(const HistoryEvent &event) noexcept {
    page_->events[page_->used++] = event;
    if (page_->full()) page_ = exchange(page_);
  }

  uint64_t size_ = 0;
  uint64_t ring_size_ = 0, next_ = 0; // pages
  std::unique_ptr<HistoryPage *[]> ring_;
  struct FreePages {
    void operator()(HistoryPage *pages) const noexcept { std::free(pages); }
  };
  std::unique_ptr<HistoryPage[], FreePages> pages_; // for the ring, used one by one as it fills
  uint64_t pages_used_ = 0;
  std::vector<std::unique_ptr<HistoryPage>> more_; // one for each writer
  std::vector<HistoryPage *> spare_;
  HistoryPage *page_ = nullptr;
  uint64_t first_ticks_ = ticks();
  int64_t first_time_ = now();
};

} // namespace tb::allocator
