// allocation_stop.h -- the reasons for which a heap's thread caches serve nothing for now.
#pragma once

#include <atomic>
#include <cstdint>

namespace tb::allocator {

// Written with the heap's lock held. Thread caches read it without that lock, with one load.
class AllocationStop {
public:
  enum Reason : uint32_t {
    paused = 1,  // the heap's memory was given back for now
    failure = 2, // queued work failed, and the next allocation reports it
  };
  bool any() const noexcept { return reasons_.load(std::memory_order_relaxed) != 0; }
  void set(Reason reason, bool value) noexcept {
    uint32_t all = reasons_.load(std::memory_order_relaxed);
    reasons_.store(value ? all | reason : all & ~uint32_t{reason}, std::memory_order_relaxed);
  }

private:
  std::atomic<uint32_t> reasons_{0};
};

} // namespace tb::allocator
