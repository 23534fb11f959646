// thread_caches.h -- the thread caches of one heap, and what the heap takes back from them.
//
// A thread gets its cache when it first frees a small block, and the cache ends with the thread, or with the heap.
//
// Locks: the list of a heap's caches is guarded by the registry of caches, a lock of the process that is taken first.
// The order is: registry, a cache's lock, the lock of the store.
//
// Invariant: the store counts a cached block as allocated until flush() has added the cache's counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "blocks/allocation_stop.h"
#include "blocks/block_store.h"
#include "heap/thread_cache.h"

namespace tb::allocator {

class ThreadCaches {
public:
  ThreadCaches(BlockStore &store, bool enabled) : store_(store), enabled_(enabled) {}
  ThreadCaches(const ThreadCaches &) = delete;
  ThreadCaches &operator=(const ThreadCaches &) = delete;

  // Whether this is one of these caches, and serves requests.
  bool serves(const ThreadCache *cache) const noexcept {
    return cache && cache->owner.load(std::memory_order_relaxed) == this;
  }
  // A block of exactly this size and stream; NULL: there is none, or nothing may be allocated.
  tb_block *take(ThreadCache &cache, uint64_t rounded, uint64_t size, const tb_stream *stream) noexcept {
    std::lock_guard guard(cache.lock);
    if (stop.any()) [[unlikely]]
      return nullptr;
    tb_block *block = cache.take(stream, rounded, size);
    if (cache.page_is_full()) [[unlikely]]
      exchange_page(cache);
    return block;
  }
  // Whether this thread's cache keeps the block that its caller freed.
  bool insert(tb_block *block) noexcept;
  // This thread's cache, or NULL.
  ThreadCache *find() noexcept;

  // Takes all blocks back. for_request: a request needs them, which says what the caches are worth. No lock of the
  // store or of a cache may be held.
  void return_all(bool for_request = false) noexcept;
  // No caches from now on. Called before there are any.
  void disable() noexcept { enabled_.store(false, std::memory_order_relaxed); }
  // The heap ends: its caches become free for other heaps, and all blocks in them are gone.
  void detach() noexcept;
  // The thread of the cache ends. The registry is held.
  void end(ThreadCache &cache) noexcept;

  // With the cache's lock and the store's: adds the cache's counts to those of the store.
  void flush(ThreadCache &cache) noexcept;
  // With a FlushedLock held.
  const std::vector<ThreadCache *> &all() const { return caches_; }

  AllocationStop stop; // why nothing is allocated from caches at the moment

private:
  friend class FlushedLock;

  ThreadCache *make() noexcept;
  // With the cache's lock.
  ThreadCache::Lists *new_lists(ThreadCache &cache, Pool &pool) noexcept;
  void make_room(ThreadCache &cache, ThreadCache::Lists &lists, const tb_block *block) noexcept;
  void exchange_page(ThreadCache &cache) noexcept;
  // With the cache's lock and the store's, after flush(). The first returns all blocks of one size but `keep`.
  void return_blocks(ThreadCache &cache, ThreadCache::Lists &lists, size_t bin, uint32_t keep) noexcept;
  void return_lists(ThreadCache &cache, ThreadCache::Lists &lists) noexcept;
  void return_cache(ThreadCache &cache) noexcept; // flushes first

  BlockStore &store_;
  std::atomic<bool> enabled_;
  std::vector<ThreadCache *> caches_; // guarded by the registry
};

// Acquires the store's lock with every thread cache locked and flushed to the store: statistics are exact. The holder
// may have the growth lock, and no other lock.
class FlushedLock {
public:
  explicit FlushedLock(ThreadCaches &caches);
  ~FlushedLock();
  FlushedLock(const FlushedLock &) = delete;
  FlushedLock &operator=(const FlushedLock &) = delete;

private:
  ThreadCaches &caches_;
};

// Acquires the store's lock with the counts of this thread's cache flushed, because a peak is one of sums. mine: the
// thread's cache of this heap, or NULL.
class HeapLock {
public:
  HeapLock(BlockStore &store, ThreadCaches &caches, ThreadCache *mine) : store_(store) {
    bool unflushed = mine && mine->unflushed.load(std::memory_order_relaxed);
    if (unflushed) mine->lock.lock();
    store_.lock.lock();
    if (!unflushed) return;
    caches.flush(*mine);
    mine->lock.unlock();
  }
  ~HeapLock() { store_.lock.unlock(); }
  HeapLock(const HeapLock &) = delete;
  HeapLock &operator=(const HeapLock &) = delete;

private:
  BlockStore &store_;
};

} // namespace tb::allocator
