// ranges.cpp -- ranges of addresses, the holes in them, and the pieces of free blocks whose pages move or go back.
#include <algorithm>
#include <mutex>
#include <utility>

#include "pages/page_mapper.h"

namespace tb::allocator {

tb_status PageMapper::find_page() {
  if (store_.page) return TB_OK;
  uint64_t least = 0, recommended = 0;
  tb_status status = driver_.api->vmm_granularity(driver_.self, source_.device(), &least, &recommended);
  if (status != TB_OK) return status;
  std::lock_guard guard(store_.lock);
  store_.page = std::max(least, recommended);
  for (auto &pools : store_.pools) pools->large.large_remainder = store_.page;
  // One range has room for all of the device's memory and for the gaps that fragmentation leaves.
  range_size_ =
      std::max(std::min(store_.policy.total_memory * 2, size_limit / 2) / store_.page, uint64_t{1}) * store_.page;
  return TB_OK;
}

tb_status PageMapper::reserve_range(Pool &pool) {
  if (tb_status status = find_page(); status != TB_OK) return status;
  void *base = nullptr;
  if (tb_status status = driver_.api->vmm_reserve(driver_.self, range_size_, store_.page, nullptr, &base);
      status != TB_OK)
    return status;
  auto *start = static_cast<char *>(base);
  std::lock_guard guard(store_.lock);
  try {
    reserve_holes(pool.large, 1);
    Segment &segment = store_.segments[start];
    segment.heap = store_.owner;
    segment.pool = &pool;
    segment.base = start;
    segment.size = range_size_;
    segment.growing = true;
    segment.pages.reset(static_cast<tb_physical **>(calloc(range_size_ / store_.page, sizeof(tb_physical *))));
    if (!segment.pages) throw std::bad_alloc();
    segment.first = store_.new_block(segment, pool, start, range_size_);
    add_hole(segment.first);
  } catch (const std::bad_alloc &) {
    store_.segments.erase(start);
    driver_.api->vmm_release(driver_.self, base, range_size_);
    throw;
  }
  store_.counters.add(pool.large, Count::segment, 1);
  return TB_OK;
}

tb_status PageMapper::release_empty_ranges() {
  tb_status first = TB_OK;
  std::unique_lock guard(store_.lock);
  for (auto at = store_.segments.begin(); at != store_.segments.end();) {
    Segment &segment = at->second;
    if (!segment.growing || segment.first->state != BlockState::unmapped || segment.first->next) {
      ++at;
      continue;
    }
    char *base = segment.base;
    uint64_t size = segment.size;
    store_.counters.subtract(segment.pool->large, Count::segment, 1);
    remove_hole(segment.first);
    store_.erase(segment.first);
    at = store_.segments.erase(at);
    guard.unlock(); // the growth lock is held: meanwhile only find() looks at the segments
    tb_status status = driver_.api->vmm_release(driver_.self, base, size);
    if (first == TB_OK) first = status;
    guard.lock();
  }
  return first;
}

void PageMapper::reserve_holes(bool large, size_t more) {
  size_t size = holes_[large].size() + stale_ + more;
  if (holes_[large].capacity() < size) holes_[large].reserve(2 * size);
}

void PageMapper::remove_hole(tb_block *block) noexcept {
  auto &holes = holes_[block->pool->large];
  holes[block->bin] = holes.back();
  holes[block->bin]->bin = block->bin;
  holes.pop_back();
}

void PageMapper::add_hole(tb_block *block) noexcept {
  block->state = BlockState::unmapped;
  if (tb_block *before = block->previous; before && before->state == BlockState::unmapped) {
    before->size += block->size;
    store_.erase(block);
    block = before;
  } else {
    auto &holes = holes_[block->pool->large]; // has room: reserve_holes() was called for every range and piece
    block->bin = static_cast<uint32_t>(holes.size());
    holes.push_back(block);
  }
  if (tb_block *after = block->next; after && after->state == BlockState::unmapped) {
    remove_hole(after);
    block->size += after->size;
    store_.erase(after);
  }
}

PageMapper::Piece PageMapper::whole_pages(tb_block *block) const noexcept {
  auto start = static_cast<uint64_t>(block->pointer - block->segment->base);
  const uint64_t page = store_.page;
  uint64_t from = (start + page - 1) / page * page, to = (start + block->size) / page * page;
  return {block, from, std::max(from, to), {}};
}

void PageMapper::reserve(Piece &piece) {
  reserve_holes(piece.block->pool->large, batch_.pieces.size() + 1);
  store_.records.take(piece.spare);
  store_.reserve(piece.block);
}

tb_block *PageMapper::split(Piece &piece, BlockState state) noexcept {
  tb_block *block = piece.block;
  Segment &segment = *block->segment;
  char *start = block->pointer, *end = start + block->size;
  char *from = segment.base + piece.from, *to = segment.base + piece.to;
  // A neighbour that became free meanwhile is inserted again, because from now on the piece is no neighbour to it.
  tb_block *sides[2] = {};
  if (from == start && block->previous && block->previous->state == BlockState::free)
    store_.reserve(sides[0] = block->previous);
  if (to == end && block->next && block->next->state == BlockState::free) store_.reserve(sides[1] = block->next);
  block->pointer = from;
  block->size = piece.to - piece.from;
  block->state = state;
  for (int side = 0; side < 2; ++side) {
    char *remainder_from = side ? to : start, *remainder_to = side ? end : from;
    tb_block *remainder = piece.spare[side];
    if (remainder_from == remainder_to) {
      store_.records.release(remainder);
      continue;
    }
    sides[side] = remainder;
    *remainder = {};
    remainder->pointer = remainder_from;
    remainder->size = static_cast<uint64_t>(remainder_to - remainder_from);
    remainder->segment = &segment;
    remainder->pool = block->pool;
    remainder->stamp = block->stamp;
    remainder->state = BlockState::reserved;
    if (side)
      store_.insert_after(block, remainder);
    else
      store_.insert_before(block, remainder);
  }
  for (tb_block *one : sides)
    if (one) store_.insert(one);
  return block;
}

void PageMapper::insert(std::vector<Piece> &pieces) noexcept {
  for (Piece &piece : pieces) {
    for (tb_block *spare : piece.spare) store_.records.release(spare);
    store_.insert(piece.block);
  }
  pieces.clear();
}

void PageMapper::join_free() {
  for (auto &[base, segment] : store_.segments) {
    if (!segment.growing) continue;
    for (tb_block *block = segment.first; block; block = block->next) {
      if (block->state != BlockState::free) continue;
      for (tb_block *next = nullptr; next != block->next && block->next && block->next->state == BlockState::free;) {
        next = block->next;
        store_.reserve(block);
        block = store_.insert(block);
      }
    }
  }
}

tb_status PageMapper::release_pages() {
  if (!runs_.empty()) return TB_OK; // paused: nothing is mapped
  batch_.pieces.clear();
  {
    std::lock_guard guard(store_.lock);
    try {
      for (auto &[base, segment] : store_.segments) {
        if (!segment.growing) continue;
        for (tb_block *block = segment.first; block; block = block->next) {
          if (block->state != BlockState::free) continue;
          Piece piece = whole_pages(block);
          if (piece.from == piece.to) continue;
          batch_.pieces.reserve(batch_.pieces.size() + 1);
          reserve(piece);
          batch_.pieces.push_back(piece);
        }
      }
    } catch (const std::bad_alloc &) {
      insert(batch_.pieces);
      throw;
    }
  }
  tb_status first = TB_OK;
  auto note = [&](tb_status status) {
    if (first == TB_OK) first = status;
  };
  for (Piece &piece : batch_.pieces) {
    Segment &segment = *piece.block->segment;
    uint64_t bytes = piece.to - piece.from, page = store_.page;
    note(driver_.api->vmm_unmap(driver_.self, segment.base + piece.from, bytes));
    for (uint64_t at = piece.from / page; at < piece.to / page; ++at)
      note(driver_.api->vmm_destroy(driver_.self, std::exchange(segment.pages[at], nullptr)));
    std::lock_guard guard(store_.lock);
    bool large = piece.block->pool->large;
    ++store_.counters.device_free;
    store_.counters.subtract(large, Count::reserved_bytes, static_cast<int64_t>(bytes));
    tb_block *hole = split(piece, BlockState::stale);
    store_.history.record(Action::unmap, hole->pointer, hole->size, hole->pool->stream);
    add_hole(hole);
  }
  batch_.pieces.clear();
  return first;
}

} // namespace tb::allocator
