// thread_cache.h -- one thread's small free blocks of one heap: most requests need no lock of the heap.
//
// It has lists by stream and exact size, so the rules of streams hold as in the heap: a block is free for its own
// stream only, and a block that other streams were recorded on is never cached. To the heap's records a cached block is
// allocated; `is_cached` tells it apart.
//
// Locks: the cache has a lock of its own, which costs its thread two nanoseconds, because other threads take it only
// when they need the blocks back or exact statistics. The order of locks is: the registry of caches
// (thread_caches.cpp), a cache's lock, the lock of the store.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "blocks/bins.h"
#include "blocks/block.h"
#include "blocks/counters.h"
#include "blocks/lock.h"
#include "diagnostics/history.h"

namespace tb::allocator {

class ThreadCaches;

class ThreadCache {
public:
  static constexpr uint64_t largest = uint64_t{32} << 10; // the exact classes of Bins
  static constexpr size_t classes = largest / unit + 1;
  static constexpr size_t most_streams = 8;
  static constexpr int64_t most_bytes = int64_t{256} << 10;
  // Where requests seldom repeat, the heap takes the blocks back all the time, to make pages free. Then the cache lets
  // so many frees pass to the heap before it is tried again.
  static constexpr uint32_t most_losses = 4, shortest_rest = 1 << 10, longest_rest = 1 << 16;

  struct Lists { // of one stream
    const tb_stream *stream = nullptr;
    Pool *pool = nullptr;  // NULL: not in use
    uint64_t occupied = 0; // bit i: there are blocks of class i + 1
    std::array<tb_block *, classes> heads{};
    std::array<uint8_t, classes> counts{};
  };
  static_assert(classes == 65);

  ThreadCache() { recent = &all[0]; } // in the body, because `all` is constructed after `recent`

  // The limit for one size: 16 KiB, or four blocks.
  static constexpr uint32_t most_blocks(size_t bin) noexcept { return static_cast<uint32_t>(bin < 8 ? 32 / bin : 4); }

  // For the thread of the cache, with the lock cached_bytes. NULL: there is no block of that stream and exactly that
  // size.
  tb_block *take(const tb_stream *stream, uint64_t size, uint64_t requested) noexcept {
    Lists *from = find(stream);
    if (!from) [[unlikely]]
      return nullptr;
    size_t bin = size / unit;
    tb_block *block = from->heads[bin];
    if (!block) return nullptr;
    from->heads[bin] = block->bin_next;
    if (!--from->counts[bin]) from->occupied &= ~(uint64_t{1} << (bin - 1));
    set_cached(block, false);
    block->requested = requested;
    blocks.add(1);
    bytes.add(static_cast<int64_t>(size));
    requested_bytes.add(static_cast<int64_t>(requested));
    cached_bytes -= static_cast<int64_t>(size);
    note(block, *from, Action::allocate);
    return block;
  }
  bool has_room(const Lists &lists, const tb_block *block) const noexcept {
    size_t bin = block->size / unit;
    return lists.counts[bin] < most_blocks(bin) && cached_bytes + static_cast<int64_t>(block->size) <= most_bytes;
  }
  void insert(tb_block *block, Lists &to) noexcept {
    size_t bin = block->size / unit;
    block->bin_next = to.heads[bin];
    to.heads[bin] = block;
    ++to.counts[bin];
    to.occupied |= uint64_t{1} << (bin - 1);
    set_cached(block, true);
    blocks.subtract(1);
    bytes.subtract(static_cast<int64_t>(block->size));
    requested_bytes.subtract(static_cast<int64_t>(block->requested));
    cached_bytes += static_cast<int64_t>(block->size);
    note(block, to, Action::free);
  }
  // Called when a request took all blocks back. A block that goes back costs about as much as one that is served saves.
  void judge() noexcept {
    if (!served && !returned) return; // also while frees pass
    losses = served < 2 * returned ? losses + 1 : 0;
    if (!losses) rest_length = 0;
    if (losses == most_losses) {
      rest_length = std::clamp(2 * rest_length, shortest_rest, longest_rest);
      passing.store(rest_length, std::memory_order_relaxed);
      losses = 0;
    }
  }
  // For the thread of the cache: whether the block that it frees now goes to the heap instead.
  bool lets_pass() noexcept {
    uint32_t left = passing.load(std::memory_order_relaxed);
    if (!left) [[likely]]
      return false;
    passing.store(left - 1, std::memory_order_relaxed);
    return true;
  }
  bool page_is_full() const noexcept { return page && page->full(); }
  Lists *find(const Pool *pool) noexcept {
    if (recent->pool == pool) [[likely]]
      return recent;
    for (Lists &one : all)
      if (one.pool == pool) return recent = &one;
    return nullptr;
  }

  Lock lock;
  std::atomic<bool> unflushed{false};         // there are counts that the heap does not have; written with the lock
  std::atomic<ThreadCaches *> owner{nullptr}; // NULL: the heap is gone, with all blocks
  uint32_t thread = 0;
  HistoryPage *page = nullptr; // NULL: no history is kept; never full while the lock is free
  int64_t cached_bytes = 0;
  Tally blocks, bytes, requested_bytes;
  size_t next_lists = 0; // the lists that the next new stream gets
  // Since all blocks were last taken back: how many the cache served, and how many went back unused.
  int64_t served = 0, returned = 0;
  uint32_t losses = 0;              // times in a row that the cache cost more than it saved
  uint32_t rest_length = 0;         // how many frees it let pass the last time
  std::atomic<uint32_t> passing{0}; // frees that still pass; the thread counts them without the lock
  Lists *recent = nullptr;
  ThreadCache *next = nullptr; // of the same thread
  std::array<Lists, most_streams> all{};

private:
  Lists *find(const tb_stream *stream) noexcept {
    if (recent->stream == stream && recent->pool) [[likely]]
      return recent;
    for (Lists &one : all)
      if (one.stream == stream && one.pool) return recent = &one;
    return nullptr;
  }
  void note(tb_block *block, const Lists &lists, Action action) noexcept {
    unflushed.store(true, std::memory_order_relaxed);
    if (!page) return;
    page->events[page->used++] = {History::ticks(),
                                  reinterpret_cast<uint64_t>(block->pointer),
                                  block->size,
                                  reinterpret_cast<uint64_t>(lists.stream),
                                  History::place_of(action),
                                  action,
                                  thread};
  }
};

// The cache that this thread used last. It is found without a call.
#if defined(__linux__)
[[gnu::tls_model("initial-exec")]]
#endif
inline constinit thread_local ThreadCache *recent_cache = nullptr;

} // namespace tb::allocator
