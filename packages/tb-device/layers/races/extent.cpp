// Ranges, rows and their overlaps.
#include "layers/races/extent.h"

#include <algorithm>

namespace tb::layers {
namespace {

constexpr uint64_t most_rows = 1 << 16; // of the side with fewer; a conflict looks at each of them once

uint64_t count_of(const Rows &rows) {
  uint64_t count = 1;
  for (const RowDimension &each : rows.dimensions) count *= each.count;
  return count;
}

// Whether a row from dimension `first` on, beginning at `begin`, has a byte in [from, to).
bool hits(const Rows &rows, size_t first, uintptr_t begin, uintptr_t from, uintptr_t to) {
  if (first == rows.dimensions.size()) return begin < to && from < begin + rows.bytes;
  uint64_t span = rows.bytes; // of what is inside the dimension
  for (size_t inner = first + 1; inner < rows.dimensions.size(); ++inner)
    span += (rows.dimensions[inner].count - 1) * rows.dimensions[inner].stride;
  const auto [count, stride] = rows.dimensions[first];
  uint64_t index = from >= begin + span ? (from - begin - span) / stride + 1 : 0;
  for (; index < count && begin + index * stride < to; ++index)
    if (hits(rows, first + 1, begin + index * stride, from, to)) return true;
  return false;
}

// Calls body(begin) for each row until it returns true.
template <class Body> bool any_row(const Rows &rows, size_t first, uintptr_t begin, const Body &body) {
  if (first == rows.dimensions.size()) return body(begin);
  for (uint64_t index = 0; index < rows.dimensions[first].count; ++index)
    if (any_row(rows, first + 1, begin + index * rows.dimensions[first].stride, body)) return true;
  return false;
}

Extent with_rows(uintptr_t begin, std::vector<RowDimension> dimensions, uint64_t bytes) {
  std::erase_if(dimensions, [](const RowDimension &each) { return each.count == 1 || each.stride == 0; });
  std::ranges::sort(dimensions, std::ranges::greater(), &RowDimension::stride);
  while (!dimensions.empty() && dimensions.back().stride <= bytes) { // the rows touch, and are one
    bytes += (dimensions.back().count - 1) * dimensions.back().stride;
    dimensions.pop_back();
  }
  Extent out;
  out.begin = begin;
  out.end = begin + bytes;
  for (const RowDimension &each : dimensions) out.end += (each.count - 1) * each.stride;
  if (!dimensions.empty()) out.rows = std::make_shared<const Rows>(Rows{std::move(dimensions), bytes});
  return out;
}

} // namespace

Extent Extent::range(const void *address, uint64_t size) {
  Extent out;
  out.begin = reinterpret_cast<uintptr_t>(address);
  out.end = out.begin + size;
  return out;
}

Extent Extent::of(const tb_races_memory &memory) {
  std::vector<RowDimension> dimensions;
  for (uint32_t at = 0; at < memory.dimensions; ++at) {
    if (memory.sizes[at] <= 0) return {};
    dimensions.push_back({static_cast<uint64_t>(memory.sizes[at]),
                          static_cast<uint64_t>(std::max<int64_t>(memory.strides[at], 0)) * memory.item_size});
  }
  return with_rows(reinterpret_cast<uintptr_t>(memory.address), std::move(dimensions), memory.item_size);
}

Extent Extent::of_pitched(const void *address, uint64_t width, uint64_t height, uint64_t pitch) {
  if (!width || !height) return {};
  return with_rows(reinterpret_cast<uintptr_t>(address), {{height, pitch}}, width);
}

bool Extent::same(const Extent &other) const {
  return begin == other.begin && end == other.end &&
         (rows == other.rows || (rows && other.rows && *rows == *other.rows));
}

bool Extent::overlaps(const Extent &other) const {
  if (begin >= other.end || other.begin >= end) return false;
  if (!rows && !other.rows) return true;
  if (!rows) return hits(*other.rows, 0, other.begin, begin, end);
  if (!other.rows) return hits(*rows, 0, begin, other.begin, other.end);
  const bool fewer = count_of(*rows) <= count_of(*other.rows);
  const Extent &few = fewer ? *this : other, &many = fewer ? other : *this;
  if (count_of(*few.rows) > most_rows) return false;
  return any_row(*few.rows, 0, few.begin,
                 [&](uintptr_t row) { return hits(*many.rows, 0, many.begin, row, row + few.rows->bytes); });
}

} // namespace tb::layers
