// history.h -- the last events of a heap, always recorded: a ring of 48-byte records. Guarded by the heap's lock.
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "block.h"

namespace tb {

enum class Action : uint32_t { allocate, free, free_requested, free_completed, map, unmap, out_of_memory };

struct HistoryEvent {
  uint64_t ticks;
  uint64_t address;
  uint64_t size;
  uint64_t stream;
  uint64_t free_at_driver; // of out_of_memory
  Action action;
  uint32_t thread; // numbered by first use
};
static_assert(sizeof(HistoryEvent) == 48);

class History {
public:
  // Rounded up to a power of two; 0 records nothing. Throws std::bad_alloc; then the ring is as it was.
  void resize(uint64_t events) {
    uint64_t size = events ? std::bit_ceil(events) : 0;
    // Zeroed by the system, page by page when first written.
    std::unique_ptr<HistoryEvent[], FreeArray> ring(
        size ? static_cast<HistoryEvent *>(calloc(size, sizeof(HistoryEvent))) : nullptr);
    if (size && !ring) throw std::bad_alloc();
    ring_ = std::move(ring);
    size_ = size;
    next_ = 0;
  }

  void record(Action action, const void *address, uint64_t size, const void *stream,
              uint64_t free_at_driver = 0) noexcept {
    if (!size_) return;
    HistoryEvent &event = ring_[next_++ & (size_ - 1)];
    event = {ticks(),        reinterpret_cast<uint64_t>(address),
             size,           reinterpret_cast<uint64_t>(stream),
             free_at_driver, action,
             thread_number()};
  }

  // Oldest first.
  std::vector<HistoryEvent> events() const;

  // Microseconds since 1970 of ticks in this history; as exact as the clocks were at its start and are now.
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

private:
  static uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc(); // a clock of the system takes as long as the rest of a cached allocation
#elif defined(__aarch64__)
    uint64_t value;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
  }
  static int64_t now() noexcept {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  static uint32_t thread_number() noexcept;

  std::unique_ptr<HistoryEvent[], FreeArray> ring_;
  uint64_t size_ = 0, next_ = 0;
  uint64_t first_ticks_ = ticks();
  int64_t first_time_ = now();
};

} // namespace tb
