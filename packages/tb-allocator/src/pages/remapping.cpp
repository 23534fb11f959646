// remapping.cpp -- a block composed of free parts of pages whose other part is in use: the last of the memory.
//
// The driver maps a page at several addresses. So a block may begin at the free end of one page, go on in whole pages,
// and end at the free start of another. At its home address such a part is a shared block: no request gets it, and its
// page does not move. At the new addresses the rest of that page is a hidden block. When the new block is free again,
// the part returns to its home.
#include <algorithm>
#include <mutex>

#include "pages/page_mapper.h"

namespace tb::allocator {

struct PageMapper::Remapping {
  Piece parts[2];     // at the end of a page, and at the start of one; either may be missing
  uint64_t pages = 0; // whole pages between them
};

// The parts with which the fewest whole pages are needed, and of those the smallest. Without parts: no page is saved.
PageMapper::Remapping PageMapper::find_parts(const Pool &pool, uint64_t size) {
  const uint64_t page = store_.page;
  std::vector<Piece> ends(1), starts(1); // of pages; the first entry of each stands for no part
  auto look = [&](tb_block *block) {
    if (block->pool->stream != pool.stream && block->stamp > block->pool->timeline->passed) return false;
    tb_physical **pages = block->segment->pages.get();
    auto from = static_cast<uint64_t>(block->pointer - block->segment->base), to = from + block->size;
    uint64_t first = (from + page - 1) / page * page, last = to / page * page; // bounds of pages
    // A second mapping has no entry in `pages`, so no part is shared twice. A block provides at most one part.
    uint64_t at_end = first <= to && pages[from / page] ? first - from : 0;
    uint64_t at_start = last >= from && pages[(to - 1) / page] ? to - last : 0;
    if (at_start > at_end)
      starts.push_back({block, last, to, {}});
    else if (at_end)
      ends.push_back({block, from, first, {}});
    return false;
  };
  for (auto &pools : store_.pools)
    for (Pool *one : {&pools->large, &pools->small}) one->bins.descend(look);
  auto length = [](const Piece &part) { return part.to - part.from; };
  for (auto *parts : {&ends, &starts})
    std::sort(parts->begin(), parts->end(), [=](auto &one, auto &other) { return length(one) < length(other); });
  Remapping best;
  uint64_t most = length(ends.back()) + length(starts.back());
  best.pages = size > most ? (size - most + page - 1) / page : 0;
  if (best.pages * page >= size) return best;
  uint64_t rest = size - best.pages * page, least = UINT64_MAX;
  auto start = starts.end();
  for (const Piece &end : ends) {
    while (start != starts.begin() && length(end) + length(start[-1]) >= rest) --start;
    if (start == starts.end() || length(end) + length(*start) >= least) continue;
    least = length(end) + length(*start);
    best.parts[0] = end;
    best.parts[1] = *start;
  }
  bool shorten_start = length(best.parts[1]) > length(best.parts[0]);
  (shorten_start ? best.parts[1].to : best.parts[0].from) -= shorten_start ? least - rest : rest - least;
  return best;
}

char *PageMapper::address_of(const View &view) const noexcept {
  const Segment &segment = *view.hidden->segment;
  return segment.base + static_cast<uint64_t>(view.hidden->pointer - segment.base) / store_.page * store_.page;
}

tb_status PageMapper::map_view(const View &view) {
  const Segment &home = *view.shared->segment;
  const uint64_t page = store_.page;
  tb_physical *physical = home.pages[static_cast<uint64_t>(view.shared->pointer - home.base) / page];
  tb_status status = driver_.api->vmm_map(driver_.self, address_of(view), page, physical, 0);
  if (status != TB_OK) return status;
  int32_t device = source_.device();
  constexpr uint32_t read_and_write = 3;
  status = driver_.api->vmm_set_access(driver_.self, address_of(view), page, &device, 1, read_and_write);
  if (status != TB_OK) driver_.api->vmm_unmap(driver_.self, address_of(view), page);
  return status;
}

// Memory is scarce when the driver has no more and little is idle. While much is idle, whole pages stay available. 93
// %: with 95 % the trace `frames` runs out of memory at 1.005 times its peak, with 90 % it maps two thirds more pages.
bool PageMapper::is_scarce(const Request &request) const noexcept {
  return full() && request.rounded >= 2 * store_.page &&
         store_.counters.active_bytes() >= store_.counters.current(Count::reserved_bytes) / 100 * 93;
}

tb_status PageMapper::remap(const Request &request, bool last_resort, tb_block **out) {
  retire_all();
  look_at_others(request.stream, unit);
  const uint64_t page = store_.page;
  Pool *pool;
  Remapping found;
  uint64_t size = 0; // of the addresses
  tb_block *hole = nullptr, *records[3];
  std::vector<Piece> parts;
  std::vector<View> views;
  parts.reserve(2);
  views.reserve(2);
  {
    std::lock_guard guard(store_.lock);
    pool = &store_.pool_of(request.stream, request.rounded > store_.policy.small_limit);
    if (!page) return TB_OUT_OF_MEMORY;
    found = find_parts(*pool, request.rounded);
    for (Piece &part : found.parts)
      if (part.block) parts.push_back(part);
    if (parts.empty()) return TB_OUT_OF_MEMORY;
    Gap gap;
    if (!last_resort && find_gap(*pool, request.rounded, &gap)) {
      uint64_t whole = (gap.to - gap.from) / page;
      char *from = gap.first->segment->base + gap.from, *to = gap.first->segment->base + gap.to;
      whole -= (gap.first->pointer > from) + (gap.last->pointer + gap.last->size < to);
      if (found.pages >= whole) return TB_OUT_OF_MEMORY;
    }
    size = (found.pages + parts.size()) * page;
    for (tb_block *one : holes_[pool->large]) // larger than needed, so that the hole's record stays
      if (one->size > size && (!hole || one->size < hole->size)) hole = one;
    if (!hole) return TB_OUT_OF_MEMORY;
    views_.reserve(views_.size() + 2);
    store_.records.take(records);
    size_t reserved = 0;
    try {
      for (; reserved < parts.size(); ++reserved) reserve(parts[reserved]);
    } catch (const std::bad_alloc &) {
      parts.resize(reserved);
      insert(parts);
      for (tb_block *record : records) store_.records.release(record);
      throw;
    }
    for (Piece &part : parts) views.push_back({split(part, BlockState::shared), nullptr});
  }
  Segment &segment = *hole->segment;
  bool at_end = found.parts[0].block; // the block begins at the end of a page
  // A hidden block, or what is left of the hole, separates the new block from the blocks before and after the hole.
  uint64_t from = static_cast<uint64_t>(hole->pointer - segment.base) + (at_end ? 0 : hole->size - size);
  uint64_t begin = from + (at_end ? found.parts[0].from % page : 0), end = begin + request.rounded;
  auto [before, block, after] = records;
  auto set = [&](tb_block *record, uint64_t start, uint64_t stop, BlockState state) {
    *record = {};
    record->pointer = segment.base + start;
    record->size = stop - start;
    record->segment = &segment;
    record->pool = pool;
    record->state = state;
  };
  set(before, from, begin, BlockState::hidden);
  set(block, begin, end, BlockState::reserved);
  set(after, end, from + size, BlockState::hidden);
  views.front().hidden = at_end ? before : after;
  views.back().hidden = views.size() == 2 ? after : views.front().hidden;
  uint64_t first = from + (at_end ? page : 0);
  Gap gap{hole, hole, first, first + found.pages * page, found.pages};
  size_t mapped = 0;
  auto undo = [&] {
    while (mapped) driver_.api->vmm_unmap(driver_.self, address_of(views[--mapped]), page);
    {
      std::lock_guard guard(store_.lock);
      for (tb_block *record : records) store_.records.release(record);
      for (const View &view : views) {
        view.shared->state = BlockState::reserved;
        store_.insert(view.shared);
      }
    }
    drop_batch();
  };
  uint64_t stamp = 0;
  try {
    tb_status status = gather(request, found.pages, last_resort, &stamp);
    while (status == TB_OK && mapped < views.size())
      if (status = map_view(views[mapped]); status == TB_OK) ++mapped;
    if (status == TB_OK && found.pages) status = map(gap);
    if (status != TB_OK) {
      undo();
      return status;
    }
  } catch (const std::bad_alloc &) {
    undo();
    throw;
  }
  std::lock_guard guard(store_.lock);
  count_batch(*pool);
  for (const View &view : views) {
    // find_parts() took parts of other streams only where these have passed them.
    if (view.shared->pool->stream == pool->stream) stamp = std::max(stamp, view.shared->stamp);
    views_.push_back(view);
  }
  store_.history.record(Action::map, before->pointer, size, pool->stream);
  for (tb_block *one : records) {
    if (!one->size)
      store_.records.release(one);
    else if (at_end)
      store_.insert_before(hole, one);
    else
      store_.insert_after(one == after ? block : hole, one);
  }
  if (at_end) hole->pointer += size;
  hole->size -= size;
  block->stamp = stamp;
  *out = store_.allocate_from(store_.insert(block), request.rounded, request.size);
  return TB_OK;
}

tb_status PageMapper::use_parts(const Request &request, tb_block **out) {
  {
    std::lock_guard guard(store_.lock);
    if (!is_scarce(request)) return TB_OUT_OF_MEMORY;
  }
  return_parts();
  return remap(request, false, out);
}

// A second mapping stays, as a stale block, until the stream has passed it.
void PageMapper::return_parts() {
  if (!runs_.empty()) return; // paused: nothing is mapped
  std::lock_guard guard(store_.lock);
  for (size_t at = 0; at < views_.size();) {
    auto [shared, hidden] = views_[at];
    char *page = address_of(views_[at]);
    bool begins = hidden->pointer > page; // the page does: so it is at the end of the remapped block
    tb_block *user = begins ? hidden->previous : hidden->next;
    char *from = begins ? page : hidden->pointer + hidden->size, *to = from + shared->size;
    if (user->state != BlockState::free || user->pointer > from || user->pointer + user->size < to) {
      ++at;
      continue;
    }
    StreamPools &owner = *store_.find_pools(user->pool->stream);
    auto offset = static_cast<uint64_t>(from - user->segment->base);
    Piece part{user, offset, offset + shared->size, {}};
    owner.timeline.retired.reserve(owner.timeline.retired.size() + 1);
    uint64_t stamp = user->stamp;
    reserve(part);
    tb_block *stale = split(part, BlockState::stale);
    stale->pointer = page;
    stale->size = store_.page;
    store_.erase(hidden);
    owner.timeline.retired.push_back({stale, stamp});
    ++stale_;
    shared->pool = shared->pool->large ? &owner.large : &owner.small;
    shared->stamp = stamp;
    shared->state = BlockState::reserved;
    store_.insert(shared);
    views_[at] = views_.back();
    views_.pop_back();
    at = 0; // the free block that it joined may itself hold shared parts
  }
}

} // namespace tb::allocator
