// adopting.cpp -- free blocks of other streams, and of the other kind of pool, for a request.
//
// A block that its stream has passed changes hands without further ado. Where there is no other, the request's stream
// waits for the block's on the device, and the host does not.
#include "heap.h"

namespace tb {

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

// A closer fit for the request than this free block of its stream: one that another stream has passed, if there is any.
tb_block *Heap::adopt_instead(tb_block *free, Pool &pool, uint64_t rounded) {
  tb_block *best = free;
  for (auto &pools : pools_) {
    Pool &other = pool.large ? pools->large : pools->small;
    if (&other == &pool) continue;
    tb_block *found = other.bins.find(rounded);
    if (found && found->size < best->size && found->stamp <= pools->timeline.passed) best = found;
  }
  if (best != free) give(best, pool);
  return best;
}

tb_status Heap::adopt(const Request &request, bool own_kind, bool passed_only, tb_block **out) {
  StreamPools *own;
  std::vector<StreamPools *> &donors = donors_; // with something that fits
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
    for (auto &pools : pools_) {
      if (pools.get() == own) continue;
      tb_block *same = (large ? pools->large : pools->small).bins.find(request.rounded);
      tb_block *other = own_kind ? nullptr : (large ? pools->small : pools->large).bins.find(request.rounded);
      if (!same && !other) continue;
      if (adopt_with_lock(*pools, pools->timeline.passed, 0)) return TB_OK;
      donors.push_back(pools.get());
    }
  }
  for (StreamPools *donor : donors) {
    // What was freed since the last event may be over as well. An event that is on its way is waited for.
    for (bool marked : {false, true}) {
      if (marked && (!donor->timeline.marks.empty() || mark(*donor) != TB_OK)) break;
      advance(donor->timeline);
      std::lock_guard guard(lock_);
      if (adopt_with_lock(*donor, donor->timeline.passed, 0)) return TB_OK;
    }
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

} // namespace tb
