// remapping.cpp -- a block put together from free parts of pages whose other part is in use: the last of the memory.
//
// The driver maps a page at several addresses. So a block may begin at the free end of one page, go on in whole pages,
// and end at the free start of another. Where the part was free it is lent then: nobody gets it, and its page stays. The
// rest of the page is closed at the block's addresses. A part that is free again goes back to where it was.
#include <algorithm>

#include "heap/heap.h"

namespace tb::allocator {

struct Heap::Splice {
  Piece parts[2];     // at the end of a page, and at the start of one; either may be missing
  uint64_t pages = 0; // between them
};

// The parts with which the fewest whole pages do, and of those the smallest. None: no page is spared.
Heap::Splice Heap::find_parts(const Pool &pool, uint64_t size) {
  std::vector<Piece> ends(1), starts(1); // of pages; and none
  auto look = [&](tb_block *block) {
    if (block->pool->stream != pool.stream && block->stamp > block->pool->timeline->passed) return false;
    tb_physical **pages = block->segment->pages.get();
    auto from = static_cast<uint64_t>(block->pointer - block->segment->base), to = from + block->size;
    uint64_t first = (from + page_ - 1) / page_ * page_, last = to / page_ * page_; // bounds of pages
    // No part is lent twice: a second mapping has no entry among the pages. And a block gives one part only.
    uint64_t at_end = first <= to && pages[from / page_] ? first - from : 0;
    uint64_t at_start = last >= from && pages[(to - 1) / page_] ? to - last : 0;
    if (at_start > at_end)
      starts.push_back({block, last, to, {}});
    else if (at_end)
      ends.push_back({block, from, first, {}});
    return false;
  };
  for (auto &pools : pools_)
    for (Pool *one : {&pools->large, &pools->small}) one->bins.descend(look);
  auto length = [](const Piece &part) { return part.to - part.from; };
  for (auto *parts : {&ends, &starts})
    std::sort(parts->begin(), parts->end(), [=](auto &one, auto &other) { return length(one) < length(other); });
  Splice best;
  uint64_t most = length(ends.back()) + length(starts.back());
  best.pages = size > most ? (size - most + page_ - 1) / page_ : 0;
  if (best.pages * page_ >= size) return best;
  uint64_t rest = size - best.pages * page_, least = UINT64_MAX;
  auto start = starts.end();
  for (const Piece &end : ends) {
    while (start != starts.begin() && length(end) + length(start[-1]) >= rest) --start;
    if (start == starts.end() || length(end) + length(*start) >= least) continue;
    least = length(end) + length(*start);
    best.parts[0] = end;
    best.parts[1] = *start;
  }
  bool cut_start = length(best.parts[1]) > length(best.parts[0]);
  (cut_start ? best.parts[1].to : best.parts[0].from) -= cut_start ? least - rest : rest - least;
  return best;
}

char *Heap::address_of(const View &view) const noexcept {
  const Segment &segment = *view.closed->segment;
  return segment.base + static_cast<uint64_t>(view.closed->pointer - segment.base) / page_ * page_;
}

tb_status Heap::map_view(const View &view) {
  const Segment &home = *view.lent->segment;
  tb_physical *page = home.pages[static_cast<uint64_t>(view.lent->pointer - home.base) / page_];
  tb_status status = driver_.api->vmm_map(driver_.self, address_of(view), page_, page, 0);
  if (status != TB_OK) return status;
  int32_t device = source_->device();
  constexpr uint32_t read_and_write = 3;
  status = driver_.api->vmm_set_access(driver_.self, address_of(view), page_, &device, 1, read_and_write);
  if (status != TB_OK) driver_.api->vmm_unmap(driver_.self, address_of(view), page_);
  return status;
}

// Nothing more is to be had, and little is idle: then a large request rather uses up parts of pages than breaks what is
// whole. Where much is idle it stays whole. 93 %: with 95 the trace `frames` runs out at 1.005 times its live bytes, with
// 90 it maps two thirds more pages.
bool Heap::is_scarce(const Request &request) const noexcept {
  return full_.load(std::memory_order_relaxed) && request.rounded >= 2 * page_ &&
         counters_.active_bytes() >= counters_.current(Count::reserved_bytes) / 100 * 93;
}

// last: whatever it takes; else only where it spares a whole page.
tb_status Heap::splice(const Request &request, bool last, tb_block **out) {
  retire_all();
  look_at_others(request.stream, unit);
  Pool *pool;
  Splice splice;
  uint64_t size = 0; // of the addresses
  tb_block *hole = nullptr, *records[3];
  std::vector<Piece> parts;
  std::vector<View> views;
  parts.reserve(2);
  views.reserve(2);
  {
    std::lock_guard guard(lock_);
    pool = &pool_of(request.stream, request.rounded > policy_.small_limit);
    if (!page_) return TB_OUT_OF_MEMORY;
    splice = find_parts(*pool, request.rounded);
    for (Piece &part : splice.parts)
      if (part.block) parts.push_back(part);
    if (parts.empty()) return TB_OUT_OF_MEMORY;
    Gap gap;
    if (!last && find_gap(*pool, request.rounded, &gap)) {
      uint64_t whole = (gap.to - gap.from) / page_;
      char *from = gap.first->segment->base + gap.from, *to = gap.first->segment->base + gap.to;
      whole -= (gap.first->pointer > from) + (gap.last->pointer + gap.last->size < to);
      if (splice.pages >= whole) return TB_OUT_OF_MEMORY;
    }
    size = (splice.pages + parts.size()) * page_;
    for (tb_block *one : holes_[pool->large]) // something is left of it
      if (one->size > size && (!hole || one->size < hole->size)) hole = one;
    if (!hole) return TB_OUT_OF_MEMORY;
    views_.reserve(views_.size() + 2);
    blocks_.take(records);
    size_t held = 0;
    try {
      for (; held < parts.size(); ++held) hold(parts[held]);
    } catch (const std::bad_alloc &) {
      parts.resize(held);
      put_back(parts);
      for (tb_block *record : records) blocks_.give(record);
      throw;
    }
    for (Piece &part : parts) views.push_back({carve(part, BlockState::lent), nullptr});
  }
  Segment &segment = *hole->segment;
  bool at_end = splice.parts[0].block; // it begins there
  // What is closed, or else what is left of the hole, lies between the block and what is before and after the hole.
  uint64_t from = static_cast<uint64_t>(hole->pointer - segment.base) + (at_end ? 0 : hole->size - size);
  uint64_t begin = from + (at_end ? splice.parts[0].from % page_ : 0), end = begin + request.rounded;
  auto [before, block, after] = records;
  auto set = [&](tb_block *record, uint64_t start, uint64_t stop, BlockState state) {
    *record = {};
    record->pointer = segment.base + start;
    record->size = stop - start;
    record->segment = &segment;
    record->pool = pool;
    record->state = state;
  };
  set(before, from, begin, BlockState::closed);
  set(block, begin, end, BlockState::held);
  set(after, end, from + size, BlockState::closed);
  views.front().closed = at_end ? before : after;
  views.back().closed = views.size() == 2 ? after : views.front().closed;
  uint64_t first = from + (at_end ? page_ : 0);
  Gap gap{hole, hole, first, first + splice.pages * page_, splice.pages};
  size_t mapped = 0;
  auto undo = [&] {
    while (mapped) driver_.api->vmm_unmap(driver_.self, address_of(views[--mapped]), page_);
    {
      std::lock_guard guard(lock_);
      for (tb_block *record : records) blocks_.give(record);
      for (const View &view : views) {
        view.lent->state = BlockState::held;
        put(view.lent);
      }
    }
    drop_harvest();
  };
  uint64_t stamp = 0;
  try {
    tb_status status = gather(request, splice.pages, last, &stamp);
    while (status == TB_OK && mapped < views.size())
      if (status = map_view(views[mapped]); status == TB_OK) ++mapped;
    if (status == TB_OK && splice.pages) status = map(gap);
    if (status != TB_OK) {
      undo();
      return status;
    }
  } catch (const std::bad_alloc &) {
    undo();
    throw;
  }
  std::lock_guard guard(lock_);
  use_harvest(*pool);
  for (const View &view : views) {
    if (view.lent->pool->stream == pool->stream) stamp = std::max(stamp, view.lent->stamp); // others have passed
    views_.push_back(view);
  }
  history_.record(Action::map, before->pointer, size, pool->stream);
  for (tb_block *one : records) {
    if (!one->size)
      blocks_.give(one);
    else if (at_end)
      insert_before(hole, one);
    else
      insert_after(one == after ? block : hole, one);
  }
  if (at_end) hole->pointer += size;
  hole->size -= size;
  block->stamp = stamp;
  *out = take(put(block), request.rounded, request.size);
  return TB_OK;
}

tb_status Heap::use_parts(const Request &request, tb_block **out) {
  {
    std::lock_guard guard(lock_);
    if (!is_scarce(request)) return TB_OUT_OF_MEMORY;
  }
  return_parts();
  return splice(request, false, out);
}

// Where nobody uses them. A second mapping stays until the stream has passed, as that of a page that moved.
void Heap::return_parts() {
  if (!runs_.empty()) return; // paused: nothing is mapped
  std::lock_guard guard(lock_);
  for (size_t at = 0; at < views_.size();) {
    auto [lent, closed] = views_[at];
    char *page = address_of(views_[at]);
    bool begins = closed->pointer > page; // the page, so it ended the block
    tb_block *user = begins ? closed->previous : closed->next;
    char *from = begins ? page : closed->pointer + closed->size, *to = from + lent->size;
    if (user->state != BlockState::free || user->pointer > from || user->pointer + user->size < to) {
      ++at;
      continue;
    }
    StreamPools &owner = *find_pools(user->pool->stream);
    auto offset = static_cast<uint64_t>(from - user->segment->base);
    Piece part{user, offset, offset + lent->size, {}};
    owner.timeline.retired.reserve(owner.timeline.retired.size() + 1);
    uint64_t stamp = user->stamp;
    hold(part);
    tb_block *stale = carve(part, BlockState::stale);
    stale->pointer = page;
    stale->size = page_;
    unlink(closed);
    owner.timeline.retired.push_back({stale, stamp});
    ++stale_;
    lent->pool = lent->pool->large ? &owner.large : &owner.small;
    lent->stamp = stamp;
    lent->state = BlockState::held;
    put(lent);
    views_[at] = views_.back();
    views_.pop_back();
    at = 0; // what it is part of now may have been lent in turn
  }
}

} // namespace tb::allocator
