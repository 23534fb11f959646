// reclaiming.cpp -- the pages for a gap: new ones while the heap may grow, else those that lie idle in free blocks.
//
// Pages of the request's own stream need no waiting, because the driver maps a page at several addresses: work that
// was queued on the old address runs before all that will be queued on the new one. Pages of another stream are taken
// when that stream has passed their last use, and else only when the device is full: then the stream waits, on the
// device, and the host does not.
#include <algorithm>

#include "heap/heap.h"

namespace tb::allocator {

tb_status Heap::gather(const Request &request, uint64_t pages, bool beyond_soft_limit, uint64_t *stamp) {
  if (!pages) return TB_OK;
  StreamPools *own;
  uint64_t quota = 0;
  {
    std::lock_guard guard(lock_);
    own = find_pools(request.stream);
    auto active = static_cast<uint64_t>(counters_.active_bytes()) + request.rounded;
    auto reserved = static_cast<uint64_t>(counters_.current(Count::reserved_bytes));
    most_active_ = std::max(most_active_, active);
    uint64_t soft = soft_limit();
    if (policy_.fixed)
      quota = pages; // nothing moves
    else if (soft > reserved)
      quota = (soft - reserved + page_ - 1) / page_;
  }
  tb_status status = create(std::min(pages, quota));
  if (status != TB_OK && status != TB_OUT_OF_MEMORY) return status;
  bool full = status != TB_OK;
  if (policy_.fixed && full) return status;
  if (harvest_.pages < pages) {
    std::lock_guard guard(lock_);
    steal(*own, pages, false);
  }
  donors_.clear();
  const std::vector<StreamPools *> &donors = donors_;
  if (harvest_.pages < pages) {
    others(*own, page_);
    for (StreamPools *donor : donors) advance(donor->timeline);
    std::lock_guard guard(lock_);
    for (StreamPools *donor : donors) steal(*donor, pages, true);
  }
  if (harvest_.pages < pages && !donors.empty()) { // what was freed since their last event may be over as well
    for (StreamPools *donor : donors) {
      if (mark(*donor) != TB_OK) continue;
      advance(donor->timeline);
      std::lock_guard guard(lock_);
      steal(*donor, pages, true);
    }
  }
  if (harvest_.pages < pages && !beyond_soft_limit) return TB_OUT_OF_MEMORY;
  if (harvest_.pages < pages && !full) {
    status = create(pages - harvest_.pages);
    if (status != TB_OK && status != TB_OUT_OF_MEMORY) return status;
  }
  if (harvest_.pages < pages) {
    std::lock_guard guard(lock_);
    for (StreamPools *donor : donors) steal(*donor, pages, false);
  }
  if (harvest_.pages < pages) return TB_OUT_OF_MEMORY;
  return wait_for_donors(own->timeline, request.stream, stamp);
}

const std::vector<StreamPools *> &Heap::others(const StreamPools &own, uint64_t least) {
  donors_.clear();
  std::lock_guard guard(lock_);
  for (auto &pools : pools_)
    if (pools.get() != &own && pools->small.bins.bytes() + pools->large.bins.bytes() >= least)
      donors_.push_back(pools.get());
  return donors_;
}

// What they have passed by now is as good as the stream's own. An event on its way is not followed by another.
void Heap::look_at_others(tb_stream *stream, uint64_t least) {
  StreamPools *own;
  {
    std::lock_guard guard(lock_);
    own = find_pools(stream);
  }
  for (StreamPools *donor : others(*own, least)) {
    if (donor->timeline.marks.empty()) mark(*donor);
    advance(donor->timeline);
  }
}

// All of them, or TB_OUT_OF_MEMORY and as many as there were.
tb_status Heap::create(uint64_t pages) {
  harvest_.fresh.reserve(harvest_.fresh.size() + pages);
  for (; pages; --pages) {
    tb_physical *page = nullptr;
    tb_status status = TB_OUT_OF_MEMORY;
    if (admits((harvest_.fresh.size() + 1) * page_))
      status = driver_.api->vmm_create(driver_.self, source_->device(), page_, 0, &page);
    full_.store(status == TB_OUT_OF_MEMORY, std::memory_order_relaxed);
    if (status != TB_OK) return status;
    harvest_.fresh.push_back(page);
    ++harvest_.pages;
  }
  return TB_OK;
}

static bool is_hole(const tb_block *block) { return block && block->state >= BlockState::unmapped; }

void Heap::steal(StreamPools &from, uint64_t pages, bool passed_only) {
  uint64_t passed = passed_only ? from.timeline.passed : UINT64_MAX;
  auto take = [&](tb_block *block) {
    if (harvest_.pages >= pages) return true;
    if (block->size < page_) return true; // and all that follow
    if (block->stamp > passed) return false;
    Piece piece = whole_pages(block);
    uint64_t wanted = (pages - harvest_.pages) * page_;
    if (piece.from == piece.to) return false;
    if (piece.to - piece.from > wanted) {
      if (is_hole(block->previous))
        piece.to = piece.from + wanted;
      else
        piece.from = piece.to - wanted;
    }
    harvest_.pieces.reserve(harvest_.pieces.size() + 1);
    from.timeline.retired.reserve(from.timeline.retired.size() + harvest_.pieces.size() + 1);
    hold(piece);
    harvest_.pieces.push_back(piece);
    harvest_.pages += (piece.to - piece.from) / page_;
    return harvest_.pages >= pages;
  };
  for (Pool *pool : {&from.large, &from.small}) {
    if (harvest_.pages >= pages) return;
    // First beside holes, so that holes grow together: elsewhere every piece leaves parts of two pages behind.
    pool->bins.descend([&](tb_block *block) {
      if (block->size < page_) return true;
      return (is_hole(block->previous) || is_hole(block->next)) && take(block);
    });
    pool->bins.descend(take);
  }
}

tb_status Heap::wait_for_donors(Timeline &mine, tb_stream *stream, uint64_t *stamp) {
  std::vector<Timeline::Mark> waits; // by timeline: the latest of its stamps
  std::vector<StreamPools *> donors;
  {
    std::lock_guard guard(lock_);
    for (Piece &piece : harvest_.pieces) {
      StreamPools *donor = find_pools(piece.block->pool->stream);
      if (&donor->timeline == &mine)
        *stamp = std::max(*stamp, piece.block->stamp);
      else if (piece.block->stamp > donor->timeline.passed &&
               std::find(donors.begin(), donors.end(), donor) == donors.end())
        donors.push_back(donor);
    }
    if (!donors.empty()) *stamp = mine.epoch; // and what it waits for
  }
  for (StreamPools *donor : donors) {
    if (tb_status status = mark(*donor); status != TB_OK) return status;
    tb_event *event = donor->timeline.marks.back().event;
    if (tb_status status = driver_.api->stream_wait_event(driver_.self, stream, event); status != TB_OK) return status;
  }
  return TB_OK;
}

} // namespace tb::allocator
