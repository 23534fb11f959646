// thread_caches.cpp -- creating and ending thread caches, and returning their blocks.
#include "heap/thread_caches.h"

#include <utility>

#include "host.h"

namespace tb::allocator {
namespace {

// Guards the lists of caches of all heaps. Never destroyed, because threads end while the process does.
std::mutex &registry = *new std::mutex;

constinit thread_local bool thread_over = false;

struct OwnCaches {
  ThreadCache *first = nullptr;
  ~OwnCaches() {
    thread_over = true;
    recent_cache = nullptr;
    if (*host.forked) return; // the locks may be held by threads that the child does not have
    std::lock_guard guard(registry);
    while (ThreadCache *cache = first) {
      first = cache->next;
      if (ThreadCaches *owner = cache->owner.load(std::memory_order_relaxed)) owner->end(*cache);
      delete cache;
    }
  }
};
thread_local OwnCaches own;

} // namespace

ThreadCache *ThreadCaches::find() noexcept {
  if (!enabled_.load(std::memory_order_relaxed) || thread_over) return nullptr;
  for (ThreadCache *cache = own.first; cache; cache = cache->next)
    if (cache->owner.load(std::memory_order_relaxed) == this) return recent_cache = cache;
  return nullptr;
}

ThreadCache *ThreadCaches::make() noexcept {
  if (!enabled_.load(std::memory_order_relaxed) || thread_over) return nullptr;
  std::lock_guard guard(registry);
  try {
    caches_.reserve(caches_.size() + 1);
    ThreadCache *cache = own.first; // of a heap that is gone, if there is one
    while (cache && cache->owner.load(std::memory_order_relaxed)) cache = cache->next;
    if (!cache) {
      cache = new ThreadCache;
      cache->thread = History::thread_number();
      cache->next = std::exchange(own.first, cache);
    }
    std::lock_guard own_guard(cache->lock);
    std::lock_guard store_guard(store_.lock);
    cache->page = store_.history.take_page();
    caches_.push_back(cache); // last, because nothing may throw once the cache is in the list
    cache->owner.store(this, std::memory_order_relaxed);
    return recent_cache = cache;
  } catch (const std::bad_alloc &) {
    return nullptr; // the thread works without a cache
  }
}

bool ThreadCaches::insert(tb_block *block) noexcept {
  ThreadCache *cache = recent_cache;
  if (!serves(cache)) [[unlikely]]
    if (!(cache = find()) && !(cache = make())) return false;
  if (cache->lets_pass()) return false;
  std::lock_guard guard(cache->lock);
  if (stop.any() || block->state != BlockState::allocated || is_cached(block)) [[unlikely]]
    return false;
  ThreadCache::Lists *lists = cache->find(block->pool);
  if (!lists) [[unlikely]]
    lists = new_lists(*cache, *block->pool);
  if (!cache->has_room(*lists, block)) [[unlikely]]
    make_room(*cache, *lists, block);
  cache->insert(block, *lists);
  if (cache->page_is_full()) [[unlikely]]
    exchange_page(*cache);
  return true;
}

// Lists for a stream that the cache has none of yet. When all are in use, those of another stream are returned.
ThreadCache::Lists *ThreadCaches::new_lists(ThreadCache &cache, Pool &pool) noexcept {
  ThreadCache::Lists *lists = cache.find(static_cast<const Pool *>(nullptr));
  if (!lists) {
    lists = &cache.all[cache.next_lists++ % ThreadCache::most_streams];
    std::lock_guard guard(store_.lock);
    flush(cache);
    return_lists(cache, *lists);
  }
  lists->pool = &pool;
  lists->stream = pool.stream;
  return cache.recent = lists;
}

void ThreadCaches::make_room(ThreadCache &cache, ThreadCache::Lists &lists, const tb_block *block) noexcept {
  std::lock_guard guard(store_.lock);
  flush(cache);
  size_t bin = block->size / unit;
  return_blocks(cache, lists, bin, ThreadCache::most_blocks(bin) / 2);
  if (!cache.has_room(lists, block)) return_cache(cache);
}

void ThreadCaches::exchange_page(ThreadCache &cache) noexcept {
  std::lock_guard guard(store_.lock);
  flush(cache);
  cache.page = store_.history.exchange(cache.page);
}

void ThreadCaches::flush(ThreadCache &cache) noexcept {
  if (!cache.unflushed.load(std::memory_order_relaxed)) return;
  constexpr bool large = false;
  store_.counters.add(large, cache.blocks, cache.bytes, cache.requested_bytes);
  store_.counters.add(large, Count::inactive_split, cache.blocks.mirrored());
  store_.counters.add(large, Count::inactive_split_bytes, cache.bytes.mirrored());
  cache.served += cache.blocks.increased;
  cache.blocks = cache.bytes = cache.requested_bytes = {};
  cache.unflushed.store(false, std::memory_order_relaxed);
}

void ThreadCaches::return_blocks(ThreadCache &cache, ThreadCache::Lists &lists, size_t bin, uint32_t keep) noexcept {
  while (lists.counts[bin] > keep) {
    --lists.counts[bin];
    ++cache.returned;
    tb_block *block = std::exchange(lists.heads[bin], lists.heads[bin]->bin_next);
    auto size = static_cast<int64_t>(block->size);
    cache.cached_bytes -= size;
    set_cached(block, false);
    store_.counters.subtract(false, Count::inactive_split, 1);
    store_.counters.subtract(false, Count::inactive_split_bytes, size);
    store_.release(block);
  }
  if (!lists.counts[bin]) lists.occupied &= ~(uint64_t{1} << (bin - 1));
}

void ThreadCaches::return_lists(ThreadCache &cache, ThreadCache::Lists &lists) noexcept {
  while (lists.occupied) return_blocks(cache, lists, static_cast<size_t>(std::countr_zero(lists.occupied)) + 1, 0);
}

void ThreadCaches::return_cache(ThreadCache &cache) noexcept {
  flush(cache);
  for (ThreadCache::Lists &lists : cache.all) return_lists(cache, lists);
}

void ThreadCaches::end(ThreadCache &cache) noexcept {
  std::lock_guard own_guard(cache.lock);
  std::lock_guard guard(store_.lock);
  return_cache(cache);
  if (cache.page) store_.history.return_page(cache.page);
  std::erase(caches_, &cache);
}

FlushedLock::FlushedLock(ThreadCaches &caches) : caches_(caches) {
  registry.lock();
  for (ThreadCache *cache : caches_.caches_) cache->lock.lock();
  caches_.store_.lock.lock();
  for (ThreadCache *cache : caches_.caches_) caches_.flush(*cache);
}

FlushedLock::~FlushedLock() {
  caches_.store_.lock.unlock();
  for (ThreadCache *cache : caches_.caches_) cache->lock.unlock();
  registry.unlock();
}

void ThreadCaches::return_all(bool for_request) noexcept {
  FlushedLock lock(*this);
  for (ThreadCache *cache : caches_) {
    return_cache(*cache);
    if (for_request) cache->judge();
    cache->served = cache->returned = 0;
  }
}

void ThreadCaches::detach() noexcept {
  std::lock_guard guard(registry);
  for (ThreadCache *cache : caches_) {
    std::lock_guard own_guard(cache->lock);
    cache->owner.store(nullptr, std::memory_order_relaxed);
    cache->page = nullptr;
    cache->cached_bytes = cache->served = cache->returned = 0;
    cache->losses = cache->rest_length = 0;
    cache->passing.store(0, std::memory_order_relaxed);
    cache->blocks = cache->bytes = cache->requested_bytes = {};
    cache->all = {};
    cache->recent = &cache->all[0];
  }
  caches_.clear();
}

} // namespace tb::allocator
