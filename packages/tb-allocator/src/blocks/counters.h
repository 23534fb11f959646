// counters.h -- the statistics of one heap, with PyTorch's meaning of each. Guarded by the heap's lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "blocks/device_total.h"
#include "tb/component.h"

namespace tb::allocator {

enum class Count : size_t {
  allocation,     // allocated blocks
  pending,        // freed blocks that other streams still use; these and the allocated ones are active
  inactive_split, // free blocks that share their segment with others
  allocated_bytes,
  pending_bytes,
  inactive_split_bytes,
  requested_bytes, // active blocks as asked, before rounding
  segment,
  reserved_bytes,
  end
};

// How much a value changed since the last flush, its extremes in between, and the sum of all increases.
struct Tally {
  int64_t current = 0, high = 0, low = 0, increased = 0;

  void add(int64_t amount) noexcept {
    increased += amount;
    current += amount;
    high = std::max(high, current);
  }
  void subtract(int64_t amount) noexcept {
    current -= amount;
    low = std::min(low, current);
  }
  // The tally of a value that falls by what this one rises.
  Tally mirrored() const noexcept { return {-current, -low, -high, increased - current}; }
};

// A value is greatest just before it falls, so only decreases update its peak.
class Counters {
public:
  void add(bool large, Count count, int64_t amount) {
    lane(count).pools[large].current += amount;
    if (count == Count::reserved_bytes && total)
      total->reserved.fetch_add(static_cast<uint64_t>(amount), std::memory_order_relaxed);
  }
  void subtract(bool large, Count count, int64_t amount) {
    Lane &one = lane(count);
    Value &value = one.pools[large];
    if (value.current > value.peak) value.peak = value.current;
    if (int64_t all = one.current(); all > one.peak) one.peak = all;
    value.current -= amount;
    value.decreased += amount;
    if (count == Count::reserved_bytes && total)
      total->reserved.fetch_sub(static_cast<uint64_t>(amount), std::memory_order_relaxed);
  }
  void add(bool large, Count count, const Tally &tally) {
    Lane &one = lane(count);
    Value &value = one.pools[large];
    value.peak = std::max(value.peak, value.current + tally.high);
    one.peak = std::max(one.peak, one.current() + tally.high);
    value.current += tally.current;
    value.decreased += tally.increased - tally.current;
  }
  // One update for a change by merging and splitting together.
  void change(bool large, Count count, int64_t amount) {
    if (amount > 0) add(large, count, amount);
    if (amount < 0) subtract(large, count, -amount);
  }

  // For a block that is allocated; freed; freed while other streams use it; no longer used by them.
  void allocate(bool large, uint64_t bytes, uint64_t requested) {
    add(large, Count::allocation, 1);
    add(large, Count::allocated_bytes, static_cast<int64_t>(bytes));
    add(large, Count::requested_bytes, static_cast<int64_t>(requested));
  }
  void free(bool large, uint64_t bytes, uint64_t requested) {
    if (current(Count::pending)) [[unlikely]]
      note_active(large);
    subtract(large, Count::allocation, 1);
    subtract(large, Count::allocated_bytes, static_cast<int64_t>(bytes));
    subtract(large, Count::requested_bytes, static_cast<int64_t>(requested));
  }
  void leave(bool large, uint64_t bytes) {
    subtract(large, Count::allocation, 1);
    subtract(large, Count::allocated_bytes, static_cast<int64_t>(bytes));
    add(large, Count::pending, 1);
    add(large, Count::pending_bytes, static_cast<int64_t>(bytes));
  }
  void complete(bool large, uint64_t bytes, uint64_t requested) {
    note_active(large);
    subtract(large, Count::pending, 1);
    subtract(large, Count::pending_bytes, static_cast<int64_t>(bytes));
    subtract(large, Count::requested_bytes, static_cast<int64_t>(requested));
  }
  // For many blocks that were allocated and freed.
  void add(bool large, const Tally &blocks, const Tally &bytes, const Tally &requested) {
    if (current(Count::pending)) note_active(large, blocks.high, bytes.high);
    add(large, Count::allocation, blocks);
    add(large, Count::allocated_bytes, bytes);
    add(large, Count::requested_bytes, requested);
  }

  int64_t current(Count count) const { return lane(count).current(); }
  int64_t current(bool large, Count count) const { return lane(count).pools[large].current; }
  int64_t active_bytes() const { return current(Count::allocated_bytes) + current(Count::pending_bytes); }
  int64_t active_bytes(bool large) const {
    return current(large, Count::allocated_bytes) + current(large, Count::pending_bytes);
  }
  int64_t peak(Count count) const { return std::max(lane(count).peak, current(count)); }

  DeviceTotal *total = nullptr; // which the reserved bytes are added to as well
  int64_t alloc_retries = 0, ooms = 0, device_alloc = 0, device_free = 0, sync_all_streams = 0;

  void reset_peak();
  void reset_accumulated();
  // Fills all but struct_size.
  void read(tb_allocator_statistics *out) const;

private:
  struct Value {
    int64_t current = 0, peak = 0;
    int64_t decreased = 0; // the sum of all decreases; that of all increases is this and `current`
  };
  struct alignas(64) Lane {
    std::array<Value, 2> pools;
    int64_t peak = 0; // of the sum, which is not the sum of the peaks
    int64_t current() const { return pools[0].current + pools[1].current; }
  };
  // Peaks of allocated and pending together, while something is pending. Otherwise they are the peaks of allocated.
  struct Active {
    std::array<int64_t, 2> pools{};
    int64_t all = 0;
  };
  static constexpr auto lanes = static_cast<size_t>(Count::end);

  Lane &lane(Count count) { return lanes_[static_cast<size_t>(count)]; }
  const Lane &lane(Count count) const { return lanes_[static_cast<size_t>(count)]; }
  // more: what the pool had in addition in between.
  void note_active(bool large, int64_t more_blocks = 0, int64_t more_bytes = 0);
  static void read(const Lane &now, const Lane &before, tb_statistic *out);
  static void read_active(const tb_statistic *allocated, const Lane &pending, const Lane &before, const Active &peaks,
                          tb_statistic *out);

  std::array<Lane, lanes> lanes_{};
  Active active_, active_bytes_;
  std::array<Lane, lanes> before_{}; // when the sums were reset
};

} // namespace tb::allocator
