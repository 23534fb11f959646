// counters.h -- the statistics of one heap, with PyTorch's meaning of each. Guarded by the heap's lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "tb/component.h"

namespace tb {

enum class Count : size_t {
  allocation,     // blocks in the caller's hands
  active,         // those, and freed ones that other streams still use
  inactive_split, // free blocks that share their segment with others
  allocated_bytes,
  active_bytes,
  inactive_split_bytes,
  requested_bytes, // active blocks as asked, before rounding
  segment,
  reserved_bytes,
  end
};

// How much a value changed since it was last told, at most and at least in between; and the sum of all increases.
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
  // Of a value that falls by what this one rises.
  Tally mirrored() const noexcept { return {-current, -low, -high, increased - current}; }
};

class Counters {
public:
  void add(bool large, Count count, int64_t amount) {
    auto lane = static_cast<size_t>(count);
    Value &value = pools_[large][lane];
    value.increased += amount;
    value.current += amount;
    if (value.current > value.peak) value.peak = value.current;
    Total &all = all_[lane];
    all.current += amount;
    if (all.current > all.peak) all.peak = all.current;
  }
  void subtract(bool large, Count count, int64_t amount) {
    auto lane = static_cast<size_t>(count);
    pools_[large][lane].current -= amount;
    all_[lane].current -= amount;
  }
  void add(bool large, Count count, const Tally &tally) {
    auto lane = static_cast<size_t>(count);
    Value &value = pools_[large][lane];
    value.increased += tally.increased;
    value.peak = std::max(value.peak, value.current + tally.high);
    value.current += tally.current;
    Total &all = all_[lane];
    all.peak = std::max(all.peak, all.current + tally.high);
    all.current += tally.current;
  }
  // One update for what changed by merging and splitting together.
  void change(bool large, Count count, int64_t amount) {
    if (amount > 0) add(large, count, amount);
    if (amount < 0) subtract(large, count, -amount);
  }
  int64_t current(Count count) const { return all_[static_cast<size_t>(count)].current; }
  int64_t current(bool large, Count count) const { return pools_[large][static_cast<size_t>(count)].current; }
  int64_t peak(Count count) const { return all_[static_cast<size_t>(count)].peak; }

  int64_t alloc_retries = 0, ooms = 0, device_alloc = 0, device_free = 0, sync_all_streams = 0;

  void reset_peak() {
    for (auto &pool : pools_)
      for (Value &value : pool) value.peak = value.current;
    for (Total &all : all_) all.peak = all.current;
  }
  void reset_accumulated() {
    for (auto &pool : pools_)
      for (Value &value : pool) {
        value.increased_before = value.increased;
        value.decreased_before = value.increased - value.current;
      }
    alloc_retries = ooms = device_alloc = device_free = sync_all_streams = 0;
  }

  // Fills all but struct_size.
  void read(tb_allocator_statistics *out) const;

private:
  static constexpr auto lanes = static_cast<size_t>(Count::end);
  struct Value {
    int64_t current = 0, peak = 0;
    int64_t increased = 0; // all increases ever; the decreases are increased - current
    int64_t increased_before = 0, decreased_before = 0;
  };
  struct Total { // sums of both pools, kept because a peak of sums is not a sum of peaks
    int64_t current = 0, peak = 0;
  };
  std::array<std::array<Value, lanes>, 2> pools_{};
  std::array<Total, lanes> all_{};
};

} // namespace tb
