// cross_stream.cpp -- free blocks of other streams, and of the other kind of pool, for a request.
//
// A block that its stream has passed is taken at once. Where there is no such block, the request's stream waits for the
// block's stream on the device, and the host does not wait.
#include "heap/heap.h"

namespace tb::allocator {

// The donor's block that fits and was freed up to the epoch `until`. It becomes a block of `own`, with that stamp.
tb_block *Heap::take_from(StreamPools &donor, StreamPools &own, const Request &request, bool own_kind, uint64_t until,
                          uint64_t stamp) {
  bool large = request.rounded > store_.policy.small_limit;
  for (Pool *pool : {large ? &donor.large : &donor.small, large ? &donor.small : &donor.large}) {
    tb_block *found = pool->bins.find(request.rounded);
    if (found && found->stamp <= until) {
      if (&donor != &own) {
        store_.transfer(found, pool->large ? own.large : own.small);
        found->stamp = stamp;
      }
      return found;
    }
    if (own_kind) break;
  }
  return nullptr;
}

// The best fit among this free block of the pool's stream, which may be NULL, and the blocks that other streams have
// passed. NULL where parts of pages should be used first.
tb_block *Heap::better_fit(tb_block *free, Pool &pool, const Request &request) noexcept {
  if (pool.large_remainder == UINT64_MAX) return free;
  constexpr uint64_t long_block = 16, long_row = 64; // pages
  uint64_t rounded = request.rounded, rest = free ? free->size - rounded : UINT64_MAX;
  if (pages_.is_scarce(request)) return nullptr;
  if (store_.pools.size() == 1) return free;
  if (rounded < store_.page) { // a request of a part of a page should not break a page that could move
    if (!free) return free;
  } else if (pages_.full()) {
    return free;
  } else if (free) {
    // While pages move, a long block should not be split off a much longer row of pages.
    if (rounded < long_block * store_.page || rest < long_row * store_.page || !pages_.may_look()) return free;
  }
  tb_block *best = free;
  uint32_t bin = Bins::class_of(rounded);
  for (auto &pools : store_.pools) {
    if (&pools->large == &pool || !pools->large.bins.reaches(bin)) continue;
    tb_block *found = pools->large.bins.find(rounded, bin);
    if (found && (!best || found->size < best->size) && found->stamp <= pools->timeline.passed) best = found;
  }
  if (best != free) store_.transfer(best, pool);
  return best;
}

tb_status Heap::take_from_other_stream(const Request &request, bool own_kind, bool passed_only, tb_block **out) {
  StreamPools *own;
  std::vector<StreamPools *> &donors = donors_; // those with a block that fits, the best first
  donors.clear();
  auto take_with_lock = [&](StreamPools &donor, uint64_t until, uint64_t stamp) {
    tb_block *found = take_from(donor, *own, request, own_kind, until, stamp);
    if (found) *out = store_.allocate_from(found, request.rounded, request.size);
    return found;
  };
  {
    std::lock_guard guard(store_.lock);
    own = store_.find_pools(request.stream);
    if (!own_kind && take_with_lock(*own, UINT64_MAX, 0)) return TB_OK;
    bool large = request.rounded > store_.policy.small_limit;
    StreamPools *passed = nullptr;
    uint64_t passed_size = UINT64_MAX, least = UINT64_MAX;
    uint32_t bin = Bins::class_of(request.rounded);
    for (auto &pools : store_.pools) {
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
    if (passed && take_with_lock(*passed, passed->timeline.passed, 0)) return TB_OK;
  }
  for (StreamPools *donor : donors) {
    // What was freed since the last event may have passed as well. No event is recorded while one is pending.
    bool marked = false;
    do {
      if (donor->timeline.marks.empty()) {
        if (pages_.mark(*donor) != TB_OK) break;
        marked = true;
      }
      pages_.advance(donor->timeline);
      std::lock_guard guard(store_.lock);
      if (take_with_lock(*donor, donor->timeline.passed, 0)) return TB_OK;
    } while (!marked && donor->timeline.marks.empty());
  }
  if (passed_only) return TB_OUT_OF_MEMORY;
  for (StreamPools *donor : donors) {
    if (tb_status status = pages_.mark(*donor); status != TB_OK) return status;
    Timeline::Mark last = donor->timeline.marks.back();
    if (tb_status status = driver_.api->stream_wait_event(driver_.self, request.stream, last.event); status != TB_OK)
      return status;
    std::lock_guard guard(store_.lock);
    // The block counts as passed when its new stream has passed the wait.
    if (take_with_lock(*donor, last.epoch, own->timeline.epoch)) return TB_OK;
  }
  return TB_OUT_OF_MEMORY;
}

} // namespace tb::allocator
