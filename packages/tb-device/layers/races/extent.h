// The bytes that a piece of work uses: a range, and its rows where the range has gaps.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tb/races.h"

namespace tb::layers {

// One dimension of rows: `count` times, each `stride` bytes further.
struct RowDimension {
  uint64_t count, stride;
  bool operator==(const RowDimension &) const = default;
};

// Rows of `bytes` each, at every combination of the dimensions, the largest stride first.
struct Rows {
  std::vector<RowDimension> dimensions;
  uint64_t bytes;
  bool operator==(const Rows &) const = default;
};

struct Extent {
  uintptr_t begin = 0, end = 0;
  std::shared_ptr<const Rows> rows; // NULL: every byte of the range

  static Extent range(const void *address, uint64_t size);
  static Extent of(const tb_races_memory &memory);
  static Extent of_pitched(const void *address, uint64_t width, uint64_t height, uint64_t pitch);

  bool empty() const { return begin == end; }
  bool same(const Extent &other) const;
  bool covers(const Extent &other) const { return !rows && begin <= other.begin && end >= other.end; }
  // Whether a byte is in both. With rows on both sides and more of them than can be looked at, false: what is not known to
  // overlap is no race.
  bool overlaps(const Extent &other) const;
};

} // namespace tb::layers
