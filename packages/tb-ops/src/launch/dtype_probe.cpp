// Combinations of dtypes beyond the first few: a table with open addressing, replaced by one of twice the size when half of
// it is taken.
#include "launch/dtype_probe.h"

#include <memory>
#include <mutex>

#include "runtime/synchronize.h"

namespace tb::ops {
namespace {

std::mutex mutex; // of all writers
constexpr size_t least_places = 64;

} // namespace

struct DtypeProbe::Table {
  explicit Table(size_t size) : mask(size - 1), places(new std::atomic<uint64_t>[size]()) {}

  const size_t mask;
  size_t used = 0;
  const std::unique_ptr<std::atomic<uint64_t>[]> places;

  // The place of these dtypes, or a free one for them. Half of the places are free, so the search ends.
  std::atomic<uint64_t> &place_of(uint64_t types) const {
    for (size_t i = (types * 0x9E3779B97F4A7C15u) >> 32;; i++) {
      std::atomic<uint64_t> &place = places[i & mask];
      if (const uint64_t there = place.load(std::memory_order_relaxed); there == types || there == 0) return place;
    }
  }
  void add(uint64_t types) {
    place_of(types).store(types, std::memory_order_relaxed);
    used++;
  }
};

bool DtypeProbe::has(const Table &table, uint64_t types) {
  return table.place_of(types).load(std::memory_order_relaxed) == types;
}

void DtypeProbe::remember(uint64_t types) {
  const std::lock_guard guard(mutex);
  if (known(types)) return;
  for (std::atomic<uint64_t> &place : places_)
    if (place.load(std::memory_order_relaxed) == 0) return place.store(types, std::memory_order_relaxed);
  Table *table = table_.load(std::memory_order_relaxed);
  if (table && 2 * table->used < table->mask) return table->add(types);
  auto grown = std::make_unique<Table>(table ? 2 * (table->mask + 1) : least_places);
  if (table)
    for (size_t i = 0; i <= table->mask; i++)
      if (const uint64_t old = table->places[i].load(std::memory_order_relaxed)) grown->add(old);
  grown->add(types);
  table_.store(grown.release(), std::memory_order_release); // the old one stays: all of them together are no larger
}

void DtypeProbe::wait(c10::DeviceIndex device, uint64_t types, const char *operation) {
  synchronize(device, operation, SyncReason::first_dtype);
  remember(types);
}

} // namespace tb::ops
