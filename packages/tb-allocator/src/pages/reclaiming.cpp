// reclaiming.cpp -- the pages for a gap: new ones while the heap may grow, otherwise those that are idle in free
// blocks.
//
// Pages of the request's own stream need no waiting. The driver maps a page at several addresses, and work that was
// queued on the old address runs before all work that will be queued on the new one. Pages of another stream are
// reclaimed when that stream has passed their last use. Only when the device is full are they reclaimed earlier; then
// the request's stream waits for the other stream on the device, and the host does not wait.
#include <algorithm>
#include <mutex>

#include "pages/page_mapper.h"

namespace tb::allocator {

tb_status PageMapper::gather(const Request &request, uint64_t pages, bool beyond_soft_limit, uint64_t *stamp) {
  if (!pages) return TB_OK;
  StreamPools *own;
  uint64_t quota = 0;
  {
    std::lock_guard guard(store_.lock);
    own = store_.find_pools(request.stream);
    auto active = static_cast<uint64_t>(store_.counters.active_bytes()) + request.rounded;
    auto reserved = static_cast<uint64_t>(store_.counters.current(Count::reserved_bytes));
    store_.most_active = std::max(store_.most_active, active);
    uint64_t soft = store_.soft_limit();
    if (store_.policy.fixed)
      quota = pages; // pages of a fixed heap never move
    else if (soft > reserved)
      quota = (soft - reserved + store_.page - 1) / store_.page;
  }
  tb_status status = create(std::min(pages, quota));
  if (status != TB_OK && status != TB_OUT_OF_MEMORY) return status;
  bool full = status != TB_OK;
  if (store_.policy.fixed && full) return status;
  if (batch_.pages < pages) {
    std::lock_guard guard(store_.lock);
    reclaim(*own, pages, false);
  }
  donors_.clear();
  const std::vector<StreamPools *> &donors = donors_;
  if (batch_.pages < pages) {
    others(*own, store_.page);
    for (StreamPools *donor : donors) advance(donor->timeline);
    std::lock_guard guard(store_.lock);
    for (StreamPools *donor : donors) reclaim(*donor, pages, true);
  }
  if (batch_.pages < pages && !donors.empty()) { // what was freed since their last event may have passed as well
    for (StreamPools *donor : donors) {
      if (mark(*donor) != TB_OK) continue;
      advance(donor->timeline);
      std::lock_guard guard(store_.lock);
      reclaim(*donor, pages, true);
    }
  }
  if (batch_.pages < pages && !beyond_soft_limit) return TB_OUT_OF_MEMORY;
  if (batch_.pages < pages && !full) {
    status = create(pages - batch_.pages);
    if (status != TB_OK && status != TB_OUT_OF_MEMORY) return status;
  }
  if (batch_.pages < pages) {
    std::lock_guard guard(store_.lock);
    for (StreamPools *donor : donors) reclaim(*donor, pages, false);
  }
  if (batch_.pages < pages) return TB_OUT_OF_MEMORY;
  return wait_for_donors(own->timeline, request.stream, stamp);
}

const std::vector<StreamPools *> &PageMapper::others(const StreamPools &own, uint64_t least) {
  donors_.clear();
  std::lock_guard guard(store_.lock);
  for (auto &pools : store_.pools)
    if (pools.get() != &own && pools->small.bins.bytes() + pools->large.bins.bytes() >= least)
      donors_.push_back(pools.get());
  return donors_;
}

void PageMapper::look_at_others(tb_stream *stream, uint64_t least) {
  StreamPools *own;
  {
    std::lock_guard guard(store_.lock);
    own = store_.find_pools(stream);
  }
  for (StreamPools *donor : others(*own, least)) {
    if (donor->timeline.marks.empty()) mark(*donor);
    advance(donor->timeline);
  }
}

// Creates so many pages, or as many as there are, with TB_OUT_OF_MEMORY.
tb_status PageMapper::create(uint64_t pages) {
  batch_.fresh.reserve(batch_.fresh.size() + pages);
  for (; pages; --pages) {
    tb_physical *page = nullptr;
    tb_status status = TB_OUT_OF_MEMORY;
    bool admitted;
    {
      std::lock_guard guard(store_.lock);
      admitted = store_.admits((batch_.fresh.size() + 1) * store_.page);
    }
    if (admitted) status = driver_.api->vmm_create(driver_.self, source_.device(), store_.page, 0, &page);
    full_.store(status == TB_OUT_OF_MEMORY, std::memory_order_relaxed);
    if (status != TB_OK) return status;
    batch_.fresh.push_back(page);
    ++batch_.pages;
  }
  return TB_OK;
}

namespace {

bool is_hole(const tb_block *block) { return block && block->state >= BlockState::unmapped; }

} // namespace

void PageMapper::reclaim(StreamPools &from, uint64_t pages, bool passed_only) {
  const uint64_t passed = passed_only ? from.timeline.passed : UINT64_MAX, page = store_.page;
  auto take = [&](tb_block *block) {
    if (batch_.pages >= pages) return true;
    if (block->size < page) return true; // and so are all blocks that follow
    if (block->stamp > passed) return false;
    Piece piece = whole_pages(block);
    uint64_t wanted = (pages - batch_.pages) * page;
    if (piece.from == piece.to) return false;
    if (piece.to - piece.from > wanted) {
      if (is_hole(block->previous))
        piece.to = piece.from + wanted;
      else
        piece.from = piece.to - wanted;
    }
    batch_.pieces.reserve(batch_.pieces.size() + 1);
    from.timeline.retired.reserve(from.timeline.retired.size() + batch_.pieces.size() + 1);
    reserve(piece);
    batch_.pieces.push_back(piece);
    batch_.pages += (piece.to - piece.from) / page;
    return batch_.pages >= pages;
  };
  for (Pool *pool : {&from.large, &from.small}) {
    if (batch_.pages >= pages) return;
    // Pieces beside holes come first, because then the holes become one. Anywhere else a piece leaves parts of two
    // pages.
    pool->bins.descend([&](tb_block *block) {
      if (block->size < page) return true;
      return (is_hole(block->previous) || is_hole(block->next)) && take(block);
    });
    pool->bins.descend(take);
  }
}

tb_status PageMapper::wait_for_donors(Timeline &mine, tb_stream *stream, uint64_t *stamp) {
  std::vector<StreamPools *> donors;
  {
    std::lock_guard guard(store_.lock);
    for (Piece &piece : batch_.pieces) {
      StreamPools *donor = store_.find_pools(piece.block->pool->stream);
      if (&donor->timeline == &mine)
        *stamp = std::max(*stamp, piece.block->stamp);
      else if (piece.block->stamp > donor->timeline.passed &&
               std::find(donors.begin(), donors.end(), donor) == donors.end())
        donors.push_back(donor);
    }
    if (!donors.empty()) *stamp = mine.epoch; // it must also be newer than what the stream waits for
  }
  for (StreamPools *donor : donors) {
    if (tb_status status = mark(*donor); status != TB_OK) return status;
    tb_event *event = donor->timeline.marks.back().event;
    if (tb_status status = driver_.api->stream_wait_event(driver_.self, stream, event); status != TB_OK) return status;
  }
  return TB_OK;
}

} // namespace tb::allocator
