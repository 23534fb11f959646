// The combinations of dtypes that one kernel has run with. No combination is forgotten, however many others follow: a
// capture, in which no kernel can run for the first time, may come long after its warm-up.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <c10/core/Device.h>

namespace tb::ops {

// Hundreds of kernels have one each, for the life of the process. The first combinations are stored in the object, since
// most kernels meet no more; further ones in a table that grows. Lookups take no lock. A combination takes up to 40 bytes.
class DtypeProbe {
public:
  bool known(uint64_t types) const {
    for (const std::atomic<uint64_t> &place : places_)
      if (place.load(std::memory_order_relaxed) == types) return true;
    const Table *table = table_.load(std::memory_order_acquire);
    return table && has(*table, types);
  }
  // Waits for the launch, and raises its failure.
  void wait(c10::DeviceIndex device, uint64_t types, const char *operation);
  void remember(uint64_t types);

private:
  struct Table;
  static bool has(const Table &table, uint64_t types);

  std::array<std::atomic<uint64_t>, 15> places_{}; // 0: free
  std::atomic<Table *> table_ = nullptr; // once these are taken. Readers may still read earlier, smaller tables
};

} // namespace tb::ops
