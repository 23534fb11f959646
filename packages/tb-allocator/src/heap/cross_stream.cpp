// cross_stream.cpp -- free blocks of other streams, and of the other kind of pool, for a request.
//
// A block that its stream has passed changes hands without further ado. Where there is no other, the request's stream
// waits for the block's on the device, and the host does not.
#include "heap/heap.h"

namespace tb::allocator {

// Of the donor's blocks that fit and were freed up to the epoch `until`; now one of `own`, with that stamp.
tb_block *Heap::adopt_from(StreamPools &donor, StreamPools &own, const Request &request, bool own_kind, uint64_t until,
                           uint64_t stamp) {
  bool large = request.rounded > policy_.small_limit;
  for (Pool *pool : {large ? &donor.large : &donor.small, large ? &donor.small : &donor.large}) {
    tb_block *found = pool->bins.find(request.rounded);
    if (found && found->stamp <= until) {
      if (&donor != &own) {
        give(found, pool->large ? own.large : own.small);
        found->stamp = stamp;
      }
      return found;
    }
    if (own_kind) break;
  }
  return nullptr;
}

// The best fit of this free block of the pool's stream, which may be NULL, and those that other streams have passed; NULL
// where parts of pages come first.
tb_block *Heap::adopt_instead(tb_block *free, Pool &pool, const Request &request) noexcept {
  if (pool.long_rest == UINT64_MAX) return free;
  constexpr uint64_t long_block = 16, long_row = 64; // pages
  uint64_t rounded = request.rounded, rest = free ? free->size - rounded : UINT64_MAX;
  if (is_scarce(request)) return nullptr;
  if (pools_.size() == 1) return free;
  if (rounded < page_) { // what lies in part of a page anyway should not break pages that could move
    if (!free) return free;
  } else if (full_.load(std::memory_order_relaxed)) {
    return free;
  } else if (free) {
    // While pages do move, long blocks should not shorten much longer rows of them.
    if (!looks_left_ || rounded < long_block * page_ || rest < long_row * page_) return free;
    --looks_left_;
  }
  tb_block *best = free;
  uint32_t bin = Bins::class_of(rounded);
  for (auto &pools : pools_) {
    if (&pools->large == &pool || !pools->large.bins.reaches(bin)) continue;
    tb_block *found = pools->large.bins.find(rounded, bin);
    if (found && (!best || found->size < best->size) && found->stamp <= pools->timeline.passed) best = found;
  }
  if (best != free) give(best, pool);
  return best;
}

tb_status Heap::adopt(const Request &request, bool own_kind, bool passed_only, tb_block **out) {
  StreamPools *own;
  std::vector<StreamPools *> &donors = donors_; // with something that fits, the best first
  donors.clear();
  auto adopt_with_lock = [&](StreamPools &donor, uint64_t until, uint64_t stamp) {
    tb_block *found = adopt_from(donor, *own, request, own_kind, until, stamp);
    if (found) *out = take(found, request.rounded, request.size);
    return found;
  };
  {
    std::lock_guard guard(lock_);
    own = find_pools(request.stream);
    if (!own_kind && adopt_with_lock(*own, UINT64_MAX, 0)) return TB_OK;
    bool large = request.rounded > policy_.small_limit;
    StreamPools *passed = nullptr;
    uint64_t passed_size = UINT64_MAX, least = UINT64_MAX;
    uint32_t bin = Bins::class_of(request.rounded);
    for (auto &pools : pools_) {
      if (pools.get() == own) continue;
      const Bins &same = (large ? pools->large : pools->small).bins,
                 &other = (large ? pools->small : pools->large).bins;
      tb_block *found = same.reaches(bin) ? same.find(request.rounded, bin) : nullptr;
      if (!found && !own_kind) found = other.find(request.rounded, bin);
      if (!found) continue;
      if (found->stamp <= pools->timeline.passed && found->size < passed_size) {
        passed = pools.get();
        passed_size = found->size;
      }
      donors.push_back(pools.get());
      if (found->size >= least) continue;
      least = found->size;
      std::swap(donors.front(), donors.back());
    }
    if (passed && adopt_with_lock(*passed, passed->timeline.passed, 0)) return TB_OK;
  }
  for (StreamPools *donor : donors) {
    // What was freed since the last event may be over as well. An event that is on its way is waited for.
    bool marked = false;
    do {
      if (donor->timeline.marks.empty()) {
        if (mark(*donor) != TB_OK) break;
        marked = true;
      }
      advance(donor->timeline);
      std::lock_guard guard(lock_);
      if (adopt_with_lock(*donor, donor->timeline.passed, 0)) return TB_OK;
    } while (!marked && donor->timeline.marks.empty());
  }
  if (passed_only) return TB_OUT_OF_MEMORY;
  for (StreamPools *donor : donors) {
    if (tb_status status = mark(*donor); status != TB_OK) return status;
    Timeline::Mark last = donor->timeline.marks.back();
    if (tb_status status = driver_.api->stream_wait_event(driver_.self, request.stream, last.event); status != TB_OK)
      return status;
    std::lock_guard guard(lock_);
    // Passed when what its stream waits for has.
    if (adopt_with_lock(*donor, last.epoch, own->timeline.epoch)) return TB_OK;
  }
  return TB_OUT_OF_MEMORY;
}

} // namespace tb::allocator
