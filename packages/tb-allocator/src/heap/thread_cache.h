// thread_cache.h -- small free blocks that stay with the thread that freed them: most requests need no lock of the heap.
//
// A thread has one cache for each heap, with lists by stream and exact size, so the rules of streams hold as in the
// heap: a block is free for its own stream only, and one that other streams were recorded on never comes here. To the
// heap's records a cached block is live; `is_cached` tells it apart.
//
// The cache has a lock of its own, which costs its thread two nanoseconds because nobody else wants it but who needs
// the blocks back or exact statistics. Order of locks: the registry of caches, a cache's lock, the heap's `lock_`.
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

class ThreadCache {
public:
  static constexpr uint64_t largest = uint64_t{32} << 10; // the exact classes of Bins
  static constexpr size_t classes = largest / unit + 1;
  static constexpr size_t most_streams = 8;
  static constexpr int64_t most_bytes = int64_t{256} << 10;
  // Frees. Where requests seldom repeat, the heap wants the blocks back all the time, to make pages free: then the cache
  // rests, and is tried again.
  static constexpr uint32_t most_losses = 4, shortest_rest = 1 << 10, longest_rest = 1 << 16;

  struct Lists { // of one stream
    const tb_stream *stream = nullptr;
    Pool *pool = nullptr;  // NULL: nobody's
    uint64_t occupied = 0; // bit i: there are blocks of class i + 1
    std::array<tb_block *, classes> heads{};
    std::array<uint8_t, classes> counts{};
  };
  static_assert(classes == 65);

  ThreadCache() { recent = &all[0]; } // in the body: until then there are none

  // Of one class: at most 16 KiB, and four blocks.
  static constexpr uint32_t most_blocks(size_t bin) noexcept { return static_cast<uint32_t>(bin < 8 ? 32 / bin : 4); }

  // For the owner, with the lock held. NULL: none of that stream and exactly that size.
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
    asked.add(static_cast<int64_t>(requested));
    held -= static_cast<int64_t>(size);
    note(block, *from, Action::allocate);
    return block;
  }
  bool has_room(const Lists &lists, const tb_block *block) const noexcept {
    size_t bin = block->size / unit;
    return lists.counts[bin] < most_blocks(bin) && held + static_cast<int64_t>(block->size) <= most_bytes;
  }
  void give(tb_block *block, Lists &to) noexcept {
    size_t bin = block->size / unit;
    block->bin_next = to.heads[bin];
    to.heads[bin] = block;
    ++to.counts[bin];
    to.occupied |= uint64_t{1} << (bin - 1);
    set_cached(block, true);
    blocks.subtract(1);
    bytes.subtract(static_cast<int64_t>(block->size));
    asked.subtract(static_cast<int64_t>(block->requested));
    held += static_cast<int64_t>(block->size);
    note(block, to, Action::free);
  }
  // When a request took all blocks back. Each that goes costs about what one from here saves.
  void judge() noexcept {
    if (!served && !returned) return; // also while it rests
    losses = served < 2 * returned ? losses + 1 : 0;
    if (!losses) rests = 0;
    if (losses == most_losses) {
      rests = std::clamp(2 * rests, shortest_rest, longest_rest);
      rest.store(rests, std::memory_order_relaxed);
      losses = 0;
    }
  }
  // For the owner: whether a block that is freed now does not come here.
  bool lets_pass() noexcept {
    uint32_t left = rest.load(std::memory_order_relaxed);
    if (!left) [[likely]]
      return false;
    rest.store(left - 1, std::memory_order_relaxed);
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
  std::atomic<bool> untold{false};   // counts that the heap does not know; written with the lock
  std::atomic<Heap *> heap{nullptr}; // NULL: it is gone, with all blocks
  uint32_t thread = 0;
  HistoryPage *page = nullptr; // NULL: nothing is remembered; never full while the lock is free
  int64_t held = 0;            // bytes
  Tally blocks, bytes, asked;
  size_t next_lists = 0; // to be given to another stream
  // Since all blocks were last taken back: how many came from here, and how many went back unused.
  int64_t served = 0, returned = 0;
  uint32_t losses = 0;           // times in a row that it was not worth having
  uint32_t rests = 0;            // frees of the latest rest
  std::atomic<uint32_t> rest{0}; // frees that it still lets pass; its thread counts them without the lock
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
    untold.store(true, std::memory_order_relaxed);
    if (!page) return;
    page->events[page->used++] = {History::ticks(),
                                  reinterpret_cast<uint64_t>(block->pointer),
                                  block->size,
                                  reinterpret_cast<uint64_t>(lists.stream),
                                  0,
                                  action,
                                  thread};
  }
};

// The latest that this thread used. Found without a call.
#if defined(__linux__)
[[gnu::tls_model("initial-exec")]]
#endif
inline constinit thread_local ThreadCache *recent_cache = nullptr;

} // namespace tb::allocator
