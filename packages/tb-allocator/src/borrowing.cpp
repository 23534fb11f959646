// borrowing.cpp -- a block of another pool for a request: what is left in pages that cannot move as a whole.
//
// The block stays its pool's: with another stream it counts as used there, as after record_stream, so it comes back
// when that stream has passed its free.
#include <algorithm>

#include "heap.h"

namespace tb {

tb_block *Heap::lend(Pool &pool, const Request &request, uint64_t passed) {
  tb_block *found = pool.bins.find(request.rounded);
  if (!found || found->stamp > passed) return nullptr;
  Use *use = nullptr;
  if (pool.stream != request.stream) {
    use = uses_.take();
    *use = {&queue_of(request.stream), nullptr, nullptr, nullptr};
  }
  tb_block *block = take(found, request.rounded, request.size);
  if (use) use->block = block;
  block->uses = use;
  return block;
}

tb_status Heap::borrow(const Request &request, bool passed_only, tb_block **out) {
  std::vector<StreamPools *> all;
  {
    std::lock_guard guard(lock_);
    StreamPools *own = find_pools(request.stream);
    Pool &other = request.rounded > small_limit ? own->small : own->large;
    if ((*out = lend(other, request, UINT64_MAX))) return TB_OK;
    for (auto &pools : pools_)
      if (pools.get() != own &&
          std::max(pools->small.bins.largest(), pools->large.bins.largest()) >= request.rounded)
        all.push_back(pools.get());
  }
  for (StreamPools *pools : all) {
    advance(pools->timeline);
    std::lock_guard guard(lock_);
    uint64_t passed = passed_only ? pools->timeline.passed : UINT64_MAX;
    for (Pool *pool : {&pools->small, &pools->large})
      if (!*out) *out = lend(*pool, request, passed);
    if (!*out) continue;
    if (passed_only) return TB_OK;
    break;
  }
  if (!*out) return TB_OUT_OF_MEMORY;
  StreamPools *lender = nullptr;
  for (StreamPools *pools : all)
    if (pools->small.stream == (*out)->pool->stream) lender = pools;
  tb_status status = mark(*lender);
  if (status == TB_OK)
    status = driver_.api->stream_wait_event(driver_.self, request.stream, lender->timeline.marks.back().event);
  if (status != TB_OK) {
    deallocate(*out);
    *out = nullptr;
  }
  return status;
}

} // namespace tb
