// growing.cpp -- growing segments: a long range of addresses whose pages get memory as needed.
//
// One block after another fits behind the last, so a request never fails for want of a contiguous piece while pages can
// be had, and pages inside a free block go back to the driver alone. Addresses without memory are blocks too, in state
// unmapped; their bounds are multiples of the chunk, the size in which memory is mapped.
#include <algorithm>

#include "heap.h"

namespace tb {
namespace {

constexpr uint64_t small_chunk = 2 * MiB, large_chunk = 20 * MiB; // as the segments of PyTorch's allocator

uint64_t round_up(uint64_t size, uint64_t step) { return (size + step - 1) / step * step; }

} // namespace

uint64_t Heap::chunk_size(const Pool &pool) const {
  return round_up(pool.large ? large_chunk : small_chunk, granularity_);
}

tb_status Heap::reserve_range(Pool &pool) {
  if (!granularity_) {
    uint64_t least = 0, recommended = 0;
    tb_status status = driver_.api->vmm_granularity(driver_.self, source_->device(), &least, &recommended);
    if (status != TB_OK) return status;
    granularity_ = std::max(least, recommended);
    // One range holds all of the device's memory and the gaps that fragmentation leaves.
    range_size_ = std::min(policy_.total_memory + policy_.total_memory / 8, size_limit / 2);
  }
  uint64_t chunk = chunk_size(pool);
  uint64_t size = std::max(range_size_ / chunk, uint64_t{1}) * chunk;
  void *base = nullptr;
  if (tb_status status = driver_.api->vmm_reserve(driver_.self, size, granularity_, nullptr, &base); status != TB_OK)
    return status;
  auto *start = static_cast<char *>(base);
  std::lock_guard guard(lock_);
  try {
    pool.unmapped.reserve(pool.unmapped.size() + 1);
    Segment &segment = segments_[start];
    segment.heap = this;
    segment.pool = &pool;
    segment.base = start;
    segment.size = size;
    segment.growing = true;
    segment.first = new_block(segment, pool, start, size);
    segment.first->state = BlockState::unmapped;
    pool.unmapped.push_back(segment.first);
  } catch (const std::bad_alloc &) {
    segments_.erase(start);
    driver_.api->vmm_release(driver_.self, base, size);
    throw;
  }
  counters_.add(pool.large, Count::segment, 1);
  return TB_OK;
}

tb_status Heap::grow_range(const Request &request, tb_block **out) {
  Pool *pool = nullptr;
  tb_block *hole = nullptr, *before = nullptr, *spare = nullptr;
  uint64_t bytes = 0;
  for (bool reserved = false; !hole; reserved = true) {
    {
      std::lock_guard guard(lock_);
      pool = &pool_of(request.stream, request.rounded > small_limit);
      // The lowest address, so that the upper end stays free to go back.
      for (tb_block *one : pool->unmapped) {
        tb_block *free = one->previous && one->previous->state == BlockState::free ? one->previous : nullptr;
        if ((free ? free->size : 0) + one->size < request.rounded || (hole && hole->pointer < one->pointer)) continue;
        hole = one;
        before = free;
      }
      if (hole) {
        spare = blocks_.take();
        if (before) take_out(before);
        bytes = round_up(request.rounded - (before ? before->size : 0), chunk_size(*pool));
      }
    }
    if (hole) break;
    if (reserved) return TB_OUT_OF_MEMORY; // more than a whole range
    if (tb_status status = reserve_range(*pool); status != TB_OK) return status;
  }
  uint64_t chunk = chunk_size(*pool);
  tb_status status = admits(bytes) ? map(hole->pointer, bytes, chunk) : TB_OUT_OF_MEMORY;
  std::lock_guard guard(lock_);
  if (status != TB_OK) {
    blocks_.give(spare);
    if (before) put(before);
    return status;
  }
  ++counters_.device_alloc;
  counters_.add(pool->large, Count::reserved_bytes, static_cast<int64_t>(bytes));
  // Free neighbours are taken out while the hole still counts as no neighbour; one may have come free meanwhile.
  if (tb_block *one = hole->previous; one && one->state == BlockState::free) take_out(before = one);
  tb_block *grown = hole;
  if (hole->size > bytes) {
    grown = spare;
    *grown = {};
    grown->pointer = hole->pointer;
    grown->size = bytes;
    grown->segment = hole->segment;
    grown->pool = pool;
    grown->previous = hole->previous;
    grown->next = hole;
    (grown->previous ? grown->previous->next : grown->segment->first) = grown;
    hole->previous = grown;
    hole->pointer += bytes;
    hole->size -= bytes;
  } else {
    blocks_.give(spare);
    std::erase(pool->unmapped, hole);
    if (tb_block *after = hole->next; after && after->state == BlockState::free) {
      take_out(after);
      hole->size += after->size;
      unlink(after);
    }
  }
  grown->state = BlockState::held;
  if (before) {
    before->size += grown->size;
    unlink(grown);
    grown = before;
  }
  *out = take(put(grown), request.rounded, request.size);
  return TB_OK;
}

// All of it or nothing.
tb_status Heap::map(char *address, uint64_t bytes, uint64_t chunk) {
  int32_t device = source_->device();
  uint64_t mapped = 0;
  tb_status status = TB_OK;
  while (mapped < bytes && status == TB_OK) {
    tb_physical *physical = nullptr;
    if (status = driver_.api->vmm_create(driver_.self, device, chunk, 0, &physical); status != TB_OK) break;
    if (status = driver_.api->vmm_map(driver_.self, address + mapped, chunk, physical, 0); status == TB_OK)
      mapped += chunk;
    tb_status dropped = driver_.api->vmm_destroy(driver_.self, physical); // lives on in its mapping
    if (status == TB_OK) status = dropped;
  }
  constexpr uint32_t read_and_write = 3;
  if (status == TB_OK) status = driver_.api->vmm_set_access(driver_.self, address, bytes, &device, 1, read_and_write);
  if (status != TB_OK) unmap(address, mapped, chunk);
  return status;
}

tb_status Heap::unmap(char *address, uint64_t bytes, uint64_t chunk) {
  tb_status first = TB_OK;
  for (uint64_t offset = 0; offset < bytes; offset += chunk)
    if (tb_status status = driver_.api->vmm_unmap(driver_.self, address + offset, chunk); status != TB_OK)
      if (first == TB_OK) first = status;
  return first;
}

void Heap::collect_idle(std::vector<Idle> &out) {
  for (auto &[base, segment] : segments_) {
    if (!segment.growing) continue;
    uint64_t chunk = chunk_size(*segment.pool);
    for (tb_block *block = segment.first; block; block = block->next) {
      if (block->state != BlockState::free) continue;
      auto start = static_cast<uint64_t>(block->pointer - base);
      uint64_t from = round_up(start, chunk), to = (start + block->size) / chunk * chunk;
      if (from >= to) continue;
      out.reserve(out.size() + 1);
      out.push_back({block, from, to, {blocks_.take(), blocks_.take()}});
      segment.pool->unmapped.reserve(segment.pool->unmapped.size() + 1);
      take_out(block);
    }
  }
}

tb_status Heap::unmap_idle(std::vector<Idle> &idle) {
  tb_status first = TB_OK;
  for (Idle &one : idle) {
    tb_block *block = one.block;
    Segment &segment = *block->segment;
    Pool &pool = *block->pool;
    uint64_t bytes = one.to - one.from;
    tb_status status = unmap(segment.base + one.from, bytes, chunk_size(pool));
    if (first == TB_OK) first = status;
    std::unique_lock guard(lock_);
    ++counters_.device_free;
    counters_.subtract(pool.large, Count::reserved_bytes, static_cast<int64_t>(bytes));
    // The block becomes the hole; what is left of it on either side becomes free again. A neighbour that came free
    // meanwhile is put anew, because from now on the hole is none to it.
    char *start = block->pointer, *end = start + block->size;
    tb_block *sides[2] = {};
    if (one.from == static_cast<uint64_t>(start - segment.base) && block->previous)
      if (block->previous->state == BlockState::free) take_out(sides[0] = block->previous);
    if (one.to == static_cast<uint64_t>(end - segment.base) && block->next)
      if (block->next->state == BlockState::free) take_out(sides[1] = block->next);
    block->pointer = segment.base + one.from;
    block->size = bytes;
    block->state = BlockState::unmapped;
    for (int side = 0; side < 2; ++side) {
      char *from = side ? segment.base + one.to : start;
      char *to = side ? end : segment.base + one.from;
      if (from == to) {
        blocks_.give(one.spare[side]);
        continue;
      }
      tb_block *rest = sides[side] = one.spare[side];
      *rest = {};
      rest->pointer = from;
      rest->size = static_cast<uint64_t>(to - from);
      rest->segment = &segment;
      rest->pool = &pool;
      rest->state = BlockState::held;
      if (side) {
        insert_after(block, rest);
      } else {
        rest->previous = block->previous;
        rest->next = block;
        (rest->previous ? rest->previous->next : segment.first) = rest;
        block->previous = rest;
      }
    }
    if (block->previous && block->previous->state == BlockState::unmapped) {
      tb_block *hole = block->previous;
      hole->size += block->size;
      unlink(block);
      block = hole;
    } else {
      pool.unmapped.push_back(block);
    }
    if (tb_block *hole = block->next; hole && hole->state == BlockState::unmapped) {
      std::erase(pool.unmapped, hole);
      block->size += hole->size;
      unlink(hole);
    }
    for (tb_block *rest : sides)
      if (rest) put(rest);
  }
  return first;
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
    std::erase(segment.pool->unmapped, segment.first);
    unlink(segment.first);
    at = segments_.erase(at);
    guard.unlock(); // growth_ is held: only find looks at segments_ meanwhile
    tb_status status = driver_.api->vmm_release(driver_.self, base, size);
    if (first == TB_OK) first = status;
    guard.lock();
  }
  return first;
}

} // namespace tb
