// block_store.h -- the blocks of one heap: its segments, the free blocks of each stream, statistics and history.
//
// Splits and merges blocks, and keeps free ones in bins. It makes no driver calls.
//
// Locks: `lock` guards everything here and is held for short sections. All functions are called with it held, except
// where a comment says otherwise. The heap's growth lock is taken outside of it; a member that is "written with both
// locks" may be read with either.
//
// Invariants: the blocks of a segment cover it without gaps, in the order of their addresses. Two free neighbours of
// one stream are merged. A block is in a bin exactly while its state is free.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "blocks/bins.h"
#include "blocks/block.h"
#include "blocks/counters.h"
#include "blocks/lock.h"
#include "blocks/policy.h"
#include "blocks/pools.h"
#include "diagnostics/history.h"

namespace tb::allocator {

// What a caller asked for. rounded: the size of the block that serves it, if it is split off a larger one.
struct Request {
  uint64_t size, rounded;
  tb_stream *stream;
};

class BlockStore {
public:
  BlockStore(Heap *owner_, const HeapPolicy &policy_) : owner(owner_), policy(policy_), limit(policy_.limit) {
    counters.total = policy.total;
  }
  BlockStore(const BlockStore &) = delete;
  BlockStore &operator=(const BlockStore &) = delete;

  Pool &pool_of(tb_stream *stream, bool large) {
    StreamPools *found = recent_[place_of(stream)];
    if (!found || found->small.stream != stream) [[unlikely]]
      found = find_pools(stream);
    return large ? found->large : found->small;
  }
  // The pools of a stream, created at its first request. Throws std::bad_alloc.
  StreamPools *find_pools(tb_stream *stream);
  // The smallest free block that fits. NULL: none fits, or the one that does is too large for the slack.
  tb_block *find_free(const Pool &pool, const Request &request) const noexcept {
    tb_block *found = pool.bins.find(request.rounded);
    return found && policy.whole_segments && !affords(*found, request.size) ? nullptr : found;
  }

  // Allocates `rounded` bytes of a free block, and splits off the remainder if it is large enough. Throws
  // std::bad_alloc.
  tb_block *allocate_from(tb_block *free, uint64_t rounded, uint64_t requested);
  // A block that its caller freed, and counted: insert() with the stamp of now.
  void release(tb_block *block) noexcept {
    block->stamp = block->pool->timeline->epoch;
    insert(block);
  }
  // Makes the block free: merges it with free neighbours, puts the result into its bin and returns it.
  tb_block *insert(tb_block *block) noexcept;
  // Moves a free block to the pool of another stream. The caller makes sure that the stream may use it.
  void transfer(tb_block *free, Pool &pool) noexcept;
  // Removes a free block from its bin, so that no request gets it. Its state is then reserved.
  void reserve(tb_block *block) noexcept;

  // The segment's row of blocks. new_block throws std::bad_alloc; erase also releases the record.
  tb_block *new_block(Segment &segment, Pool &pool, char *pointer, uint64_t size);
  void erase(tb_block *block) noexcept;
  void insert_before(tb_block *block, tb_block *added) noexcept;
  void insert_after(tb_block *block, tb_block *added) noexcept;

  // Whether so many more bytes may be reserved from the driver.
  bool admits(uint64_t bytes) const noexcept {
    auto reserved = static_cast<uint64_t>(counters.current(Count::reserved_bytes));
    return bytes <= limit && reserved <= limit - bytes && (!policy.total || policy.total->admits(bytes));
  }
  // Reserved memory grows up to here before pages move or idle segments go back.
  uint64_t soft_limit() const noexcept {
    return most_active + static_cast<uint64_t>(static_cast<double>(most_active) * policy.slack);
  }

  Heap *const owner;                   // whose segments these are
  HeapPolicy policy;                   // written with both locks
  tb_stream *default_stream = nullptr; // what a NULL stream stands for
  alignas(64) Lock lock;               // apart from what threads read without it
  Counters counters;
  History history;
  Records<tb_block> records;
  Segments segments;
  std::vector<std::unique_ptr<StreamPools>> pools;
  uint64_t limit;           // of reserved memory, in bytes
  uint64_t most_active = 0; // bytes in use at one time, as far as requests that needed memory saw
  uint64_t page = 0;        // the granularity of virtual memory, once it is known; written with both locks

private:
  static size_t place_of(const tb_stream *stream) noexcept {
    return (reinterpret_cast<uintptr_t>(stream) * 0x9E3779B97F4A7C15) >> 60;
  }
  bool affords(const tb_block &found, uint64_t size) const noexcept;
  // Whether memory next to the block, in the same segment, belongs to another block.
  static bool shares_segment(const tb_block *block) noexcept {
    return (block->previous && block->previous->state < BlockState::unmapped) ||
           (block->next && block->next->state < BlockState::unmapped);
  }

  std::array<StreamPools *, 16> recent_{}; // the latest of the streams with this place
};

// These are defined here because the path of every allocation and deallocation inlines them (heap.cpp).

inline tb_block *BlockStore::allocate_from(tb_block *free, uint64_t rounded, uint64_t requested) {
  Pool &pool = *free->pool;
  bool large = pool.large;
  bool shared = shares_segment(free);
  uint64_t remainder = free->size - rounded;
  tb_block *block = free;
  if (remainder >= pool.min_split_remainder) {
    block = records.take();
    block->pointer = free->pointer;
    block->size = rounded;
    block->segment = free->segment;
    block->pool = &pool;
    block->previous = free->previous;
    block->next = free;
    if (block->previous)
      block->previous->next = block;
    else
      block->segment->first = block;
    free->previous = block;
    free->pointer += rounded;
    pool.bins.resize(free, remainder);
    if (shared) {
      counters.subtract(large, Count::inactive_split_bytes, static_cast<int64_t>(rounded));
    } else {
      counters.add(large, Count::inactive_split, 1);
      counters.add(large, Count::inactive_split_bytes, static_cast<int64_t>(remainder));
    }
  } else {
    pool.bins.remove(free);
    if (shared) {
      counters.subtract(large, Count::inactive_split, 1);
      counters.subtract(large, Count::inactive_split_bytes, static_cast<int64_t>(free->size));
    }
  }
  block->state = BlockState::allocated;
  block->requested = requested;
  counters.allocate(large, block->size, requested);
  history.record(Action::allocate, block->pointer, block->size, pool.stream);
  return block;
}

inline tb_block *BlockStore::insert(tb_block *block) noexcept {
  Pool &pool = *block->pool;
  tb_block *previous = block->previous, *next = block->next;
  // A neighbour of another stream that has passed it joins too, so that split addresses become one block again.
  auto joins = [&](tb_block *other) {
    if (!other || other->state != BlockState::free) return false;
    if (other->pool == &pool) return true;
    if (other->stamp > other->pool->timeline->passed) return false;
    transfer(other, pool);
    return true;
  };
  bool join_previous = joins(previous), join_next = joins(next);
  int64_t count = 0, bytes = 0; // of free blocks that share a segment
  tb_block *whole = block;
  uint64_t stamp = block->stamp;
  if (join_previous) {
    whole = previous;
    stamp = std::max(stamp, previous->stamp);
    uint64_t size = previous->size + block->size;
    count -= 1;
    bytes -= static_cast<int64_t>(previous->size);
    erase(block);
    if (join_next) {
      stamp = std::max(stamp, next->stamp);
      size += next->size;
      count -= 1;
      bytes -= static_cast<int64_t>(next->size);
      pool.bins.remove(next);
      erase(next);
    }
    pool.bins.resize(previous, size);
  } else if (join_next) {
    whole = next;
    stamp = std::max(stamp, next->stamp);
    uint64_t size = block->size + next->size;
    count -= 1;
    bytes -= static_cast<int64_t>(next->size);
    next->pointer = block->pointer;
    erase(block);
    pool.bins.resize(next, size);
  } else {
    block->state = BlockState::free;
    pool.bins.insert(block);
  }
  whole->stamp = stamp;
  if (shares_segment(whole)) {
    count += 1;
    bytes += static_cast<int64_t>(whole->size);
  }
  counters.change(pool.large, Count::inactive_split, count);
  counters.change(pool.large, Count::inactive_split_bytes, bytes);
  return whole;
}

inline void BlockStore::transfer(tb_block *free, Pool &pool) noexcept {
  free->pool->bins.remove(free);
  free->pool = &pool;
  free->stamp = 0;
  pool.bins.insert(free);
}

inline tb_block *BlockStore::new_block(Segment &segment, Pool &pool, char *pointer, uint64_t size) {
  tb_block *block = records.take();
  *block = {};
  block->pointer = pointer;
  block->size = size;
  block->segment = &segment;
  block->pool = &pool;
  return block;
}

inline void BlockStore::erase(tb_block *block) noexcept {
  if (block->previous)
    block->previous->next = block->next;
  else
    block->segment->first = block->next;
  if (block->next) block->next->previous = block->previous;
  block->state = BlockState::unused;
  records.release(block);
}

inline void BlockStore::insert_after(tb_block *block, tb_block *added) noexcept {
  added->previous = block;
  added->next = block->next;
  if (added->next) added->next->previous = added;
  block->next = added;
}

} // namespace tb::allocator
