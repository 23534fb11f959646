// block_store.cpp -- the pools of streams, and what the path of an allocation does not inline.
#include "blocks/block_store.h"

namespace tb::allocator {

StreamPools *BlockStore::find_pools(tb_stream *stream) {
  StreamPools *&recent = recent_[place_of(stream)];
  if (recent && recent->small.stream == stream) return recent;
  auto found = std::find_if(pools.begin(), pools.end(), [=](auto &one) { return one->small.stream == stream; });
  if (found == pools.end()) {
    auto made = std::make_unique<StreamPools>();
    made->small.stream = made->large.stream = stream;
    made->large.large = true;
    made->small.timeline = made->large.timeline = &made->timeline;
    // A remainder of at most 1 MiB could serve small requests only, and those have segments of their own.
    if (!policy.growing)
      made->large.min_split_remainder = policy.whole_segments ? size_limit : policy.small_limit + unit;
    if (page) made->large.large_remainder = page;
    found = pools.insert(found, std::move(made));
  }
  return recent = found->get();
}

// What large blocks have beyond what was asked, and what small blocks leave of their segments, stays within the slack.
// While it does, everything that is not idle stays below the soft limit.
bool BlockStore::affords(const tb_block &found, uint64_t size) const noexcept {
  uint64_t rest = found.size - size;
  if (!found.pool->large || rest < policy.large_rounding) [[likely]]
    return true;
  int64_t more = counters.active_bytes(true) + counters.current(false, Count::reserved_bytes) -
                 counters.current(Count::requested_bytes);
  return static_cast<uint64_t>(more) + rest <= soft_limit() - most_active;
}

void BlockStore::reserve(tb_block *block) noexcept {
  Pool &pool = *block->pool;
  pool.bins.remove(block);
  block->state = BlockState::reserved;
  if (!shares_segment(block)) return;
  counters.subtract(pool.large, Count::inactive_split, 1);
  counters.subtract(pool.large, Count::inactive_split_bytes, static_cast<int64_t>(block->size));
}

void BlockStore::insert_before(tb_block *block, tb_block *added) noexcept {
  added->next = block;
  added->previous = block->previous;
  (added->previous ? added->previous->next : block->segment->first) = added;
  block->previous = added;
}

} // namespace tb::allocator
