// recording.h -- the allocations of a step, in order.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tb/component.h"

namespace tb::allocator {

// One allocation of a step.
struct Recorded {
  static constexpr uint32_t escapes = UINT32_MAX;
  uint64_t size; // rounded
  tb_stream *stream;
  uint32_t freed = escapes;      // before so many allocations of the step; escapes: not within the step
  std::vector<tb_stream *> uses; // other streams that were recorded on it
  bool operator==(const Recorded &) const = default;
};

class Recording {
public:
  void clear() {
    all_.clear();
    indices_.clear();
  }
  // Throws std::bad_alloc.
  void allocated(const tb_block *block, uint64_t size, tb_stream *stream) {
    indices_[block] = static_cast<uint32_t>(all_.size());
    all_.push_back({size, stream, Recorded::escapes, {}});
  }
  // NULL: it was allocated before the step.
  Recorded *freed(const tb_block *block) noexcept {
    auto found = indices_.find(block);
    if (found == indices_.end()) return nullptr;
    Recorded &one = all_[found->second];
    one.freed = static_cast<uint32_t>(all_.size());
    indices_.erase(found);
    return &one;
  }
  const std::vector<Recorded> &all() const { return all_; }

private:
  std::vector<Recorded> all_;
  std::unordered_map<const tb_block *, uint32_t> indices_; // in all_, by allocated block
};

} // namespace tb::allocator
