// device_total.h -- what all heaps of one device reserve together, and the limit for it: the device's own heap, arenas, and
// the pools of captures.
#pragma once

#include <atomic>
#include <cstdint>

namespace tb::allocator {

struct DeviceTotal {
  std::atomic<uint64_t> reserved{0};       // bytes
  std::atomic<uint64_t> limit{UINT64_MAX}; // bytes

  // Two heaps that grow at the same moment may both be admitted, and pass the limit by the smaller of the two.
  bool admits(uint64_t bytes) const noexcept {
    const uint64_t most = limit.load(std::memory_order_relaxed);
    return bytes <= most && reserved.load(std::memory_order_relaxed) <= most - bytes;
  }
};

} // namespace tb::allocator
