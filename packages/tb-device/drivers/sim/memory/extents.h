// Which parts of a device's memory file are free.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace tb::drivers::sim {

// Next fit: a search continues where the last one ended, so that freed addresses are reused as late as possible.
class Extents {
public:
  Extents(uint64_t begin, uint64_t end) : cursor_(begin) { free_.emplace(begin, end - begin); }

  std::optional<uint64_t> take(uint64_t size) {
    for (auto extent = free_.lower_bound(cursor_); extent != free_.end(); ++extent)
      if (extent->second >= size) return cut(extent, size);
    for (auto extent = free_.begin(); extent != free_.end() && extent->first < cursor_; ++extent)
      if (extent->second >= size) return cut(extent, size);
    return std::nullopt;
  }

  struct Range {
    uint64_t begin, size;
  };
  // Returns a range and gives the free range of which it is now a part.
  Range give(uint64_t begin, uint64_t size) {
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && next->first == begin + size) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == begin) {
        before->second += size;
        return {before->first, before->second};
      }
    }
    free_.emplace_hint(next, begin, size);
    return {begin, size};
  }

private:
  using Free = std::map<uint64_t, uint64_t>; // begin to size

  uint64_t cut(Free::iterator extent, uint64_t size) {
    const uint64_t begin = extent->first, left = extent->second - size;
    const auto after = free_.erase(extent);
    if (left) free_.emplace_hint(after, begin + size, left);
    cursor_ = begin + size;
    return begin;
  }

  Free free_;
  uint64_t cursor_;
};

} // namespace tb::drivers::sim
