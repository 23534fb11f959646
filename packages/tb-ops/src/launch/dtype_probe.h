// The combinations of types that one kernel has run with. What was learned stays learned, however many others follow: a
// capture, in which nothing can run for the first time, may come long after its warm-up.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <c10/core/Device.h>

namespace tb {

// Hundreds of kernels have one each, for the life of the process. The first combinations lie in the object, since most
// kernels meet no more; further ones in a table that grows. Lookups take no lock. A combination takes up to 40 bytes, and
// there are as many as a program makes up of the types that there are.
class FirstUse {
public:
  bool known(uint64_t types) const {
    for (const std::atomic<uint64_t> &place : places_)
      if (place.load(std::memory_order_relaxed) == types) return true;
    const Table *table = table_.load(std::memory_order_acquire);
    return table && has(*table, types);
  }
  // Waits for the launch; what it failed with is raised here.
  void wait(c10::DeviceIndex device, uint64_t types, const char *operation);
  void remember(uint64_t types);

private:
  struct Table;
  static bool has(const Table &table, uint64_t types);

  std::array<std::atomic<uint64_t>, 15> places_{}; // 0: free
  std::atomic<Table *> table_ = nullptr; // once these are taken; of earlier, smaller tables readers may still read
};

} // namespace tb
