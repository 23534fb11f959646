// ranges.cpp -- ranges of addresses whose pages get memory as needed, and lose it again.
//
// Addresses without memory are blocks too: in state unmapped, or stale while the driver still maps pages there that
// went elsewhere. Their bounds are multiples of the page. They change under growth_ only, so that the holder of
// growth_ may rely on them without lock_.
#include <algorithm>

#include "heap/heap.h"

namespace tb::allocator {

tb_status Heap::find_page() {
  if (page_) return TB_OK;
  uint64_t least = 0, recommended = 0;
  tb_status status = driver_.api->vmm_granularity(driver_.self, source_->device(), &least, &recommended);
  if (status != TB_OK) return status;
  std::lock_guard guard(lock_);
  page_ = std::max(least, recommended);
  for (auto &pools : pools_) pools->large.long_rest = page_;
  // A cached block counts as one that shares its page.
  if (page_ < 2 * ThreadCache::largest) caching_.store(false, std::memory_order_relaxed);
  // One range holds all of the device's memory and the gaps that fragmentation leaves.
  range_size_ = std::max(std::min(policy_.total_memory * 2, size_limit / 2) / page_, uint64_t{1}) * page_;
  return TB_OK;
}

tb_status Heap::reserve_range(Pool &pool) {
  if (tb_status status = find_page(); status != TB_OK) return status;
  void *base = nullptr;
  if (tb_status status = driver_.api->vmm_reserve(driver_.self, range_size_, page_, nullptr, &base); status != TB_OK)
    return status;
  auto *start = static_cast<char *>(base);
  std::lock_guard guard(lock_);
  try {
    reserve_holes(pool.large, 1);
    Segment &segment = segments_[start];
    segment.heap = this;
    segment.pool = &pool;
    segment.base = start;
    segment.size = range_size_;
    segment.growing = true;
    segment.pages.reset(static_cast<tb_physical **>(calloc(range_size_ / page_, sizeof(tb_physical *))));
    if (!segment.pages) throw std::bad_alloc();
    segment.first = new_block(segment, pool, start, range_size_);
    add_hole(segment.first);
  } catch (const std::bad_alloc &) {
    segments_.erase(start);
    driver_.api->vmm_release(driver_.self, base, range_size_);
    throw;
  }
  counters_.add(pool.large, Count::segment, 1);
  return TB_OK;
}

tb_status Heap::release_empty_ranges() {
  tb_status first = TB_OK;
  std::unique_lock guard(lock_);
  for (auto at = segments_.begin(); at != segments_.end();) {
    Segment &segment = at->second;
    if (!segment.growing || segment.first->state != BlockState::unmapped || segment.first->next) {
      ++at;
      continue;
    }
    char *base = segment.base;
    uint64_t size = segment.size;
    counters_.subtract(segment.pool->large, Count::segment, 1);
    remove_hole(segment.first);
    unlink(segment.first);
    at = segments_.erase(at);
    guard.unlock(); // growth_ is held: only find looks at segments_ meanwhile
    tb_status status = driver_.api->vmm_release(driver_.self, base, size);
    if (first == TB_OK) first = status;
    guard.lock();
  }
  return first;
}

// Stale blocks become holes one day: that must not fail.
void Heap::reserve_holes(bool large, size_t more) {
  size_t size = holes_[large].size() + stale_ + more;
  if (holes_[large].capacity() < size) holes_[large].reserve(2 * size);
}

void Heap::remove_hole(tb_block *block) noexcept {
  auto &holes = holes_[block->pool->large];
  holes[block->bin] = holes.back();
  holes[block->bin]->bin = block->bin;
  holes.pop_back();
}

void Heap::add_hole(tb_block *block) noexcept {
  block->state = BlockState::unmapped;
  if (tb_block *before = block->previous; before && before->state == BlockState::unmapped) {
    before->size += block->size;
    unlink(block);
    block = before;
  } else {
    auto &holes = holes_[block->pool->large]; // has room: every new range and piece saw to it
    block->bin = static_cast<uint32_t>(holes.size());
    holes.push_back(block);
  }
  if (tb_block *after = block->next; after && after->state == BlockState::unmapped) {
    remove_hole(after);
    block->size += after->size;
    unlink(after);
  }
}

Heap::Piece Heap::whole_pages(tb_block *block) const noexcept {
  auto start = static_cast<uint64_t>(block->pointer - block->segment->base);
  uint64_t from = (start + page_ - 1) / page_ * page_, to = (start + block->size) / page_ * page_;
  return {block, from, std::max(from, to), {}};
}

void Heap::hold(Piece &piece) {
  reserve_holes(piece.block->pool->large, harvest_.pieces.size() + 1);
  blocks_.take(piece.spare);
  take_out(piece.block);
}

tb_block *Heap::carve(Piece &piece, BlockState state) noexcept {
  tb_block *block = piece.block;
  Segment &segment = *block->segment;
  char *start = block->pointer, *end = start + block->size;
  char *from = segment.base + piece.from, *to = segment.base + piece.to;
  // A neighbour that came free meanwhile is put anew, because from now on the piece is none to it.
  tb_block *sides[2] = {};
  if (from == start && block->previous && block->previous->state == BlockState::free)
    take_out(sides[0] = block->previous);
  if (to == end && block->next && block->next->state == BlockState::free) take_out(sides[1] = block->next);
  block->pointer = from;
  block->size = piece.to - piece.from;
  block->state = state;
  for (int side = 0; side < 2; ++side) {
    char *rest_from = side ? to : start, *rest_to = side ? end : from;
    tb_block *rest = piece.spare[side];
    if (rest_from == rest_to) {
      blocks_.give(rest);
      continue;
    }
    sides[side] = rest;
    *rest = {};
    rest->pointer = rest_from;
    rest->size = static_cast<uint64_t>(rest_to - rest_from);
    rest->segment = &segment;
    rest->pool = block->pool;
    rest->stamp = block->stamp;
    rest->state = BlockState::held;
    if (side)
      insert_after(block, rest);
    else
      insert_before(block, rest);
  }
  for (tb_block *rest : sides)
    if (rest) put(rest);
  return block;
}

void Heap::put_back(std::vector<Piece> &pieces) noexcept {
  for (Piece &piece : pieces) {
    for (tb_block *spare : piece.spare) blocks_.give(spare);
    put(piece.block);
  }
  pieces.clear();
}

void Heap::join_free() {
  for (auto &[base, segment] : segments_) {
    if (!segment.growing) continue;
    for (tb_block *block = segment.first; block; block = block->next) {
      if (block->state != BlockState::free) continue;
      for (tb_block *next = nullptr; next != block->next && block->next && block->next->state == BlockState::free;) {
        next = block->next;
        take_out(block);
        block = put(block);
      }
    }
  }
}

tb_status Heap::release_pages() {
  if (!runs_.empty()) return TB_OK; // paused: nothing is mapped
  harvest_.pieces.clear();
  {
    std::lock_guard guard(lock_);
    try {
      for (auto &[base, segment] : segments_) {
        if (!segment.growing) continue;
        for (tb_block *block = segment.first; block; block = block->next) {
          if (block->state != BlockState::free) continue;
          Piece piece = whole_pages(block);
          if (piece.from == piece.to) continue;
          harvest_.pieces.reserve(harvest_.pieces.size() + 1);
          hold(piece);
          harvest_.pieces.push_back(piece);
        }
      }
    } catch (const std::bad_alloc &) {
      put_back(harvest_.pieces);
      throw;
    }
  }
  tb_status first = TB_OK;
  auto note = [&](tb_status status) {
    if (first == TB_OK) first = status;
  };
  for (Piece &piece : harvest_.pieces) {
    Segment &segment = *piece.block->segment;
    uint64_t bytes = piece.to - piece.from;
    note(driver_.api->vmm_unmap(driver_.self, segment.base + piece.from, bytes));
    for (uint64_t page = piece.from / page_; page < piece.to / page_; ++page)
      note(driver_.api->vmm_destroy(driver_.self, std::exchange(segment.pages[page], nullptr)));
    std::lock_guard guard(lock_);
    bool large = piece.block->pool->large;
    ++counters_.device_free;
    counters_.subtract(large, Count::reserved_bytes, static_cast<int64_t>(bytes));
    tb_block *hole = carve(piece, BlockState::stale);
    history_.record(Action::unmap, hole->pointer, hole->size, hole->pool->stream);
    add_hole(hole);
  }
  harvest_.pieces.clear();
  return first;
}

} // namespace tb::allocator
