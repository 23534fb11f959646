// thread_caches.cpp -- making and ending threads' caches, and what a heap takes back from them.
#include "heap/thread_cache.h"

#include "heap/heap_lock.h"

namespace tb::allocator {
namespace {

// Guards the lists of caches of all heaps. Never destroyed: threads end while the process does.
std::mutex &registry = *new std::mutex;

constinit thread_local bool thread_over = false;

struct OwnCaches {
  ThreadCache *first = nullptr;
  ~OwnCaches() {
    thread_over = true;
    recent_cache = nullptr;
    if (*host.forked) return; // the locks may be held by threads that are not here
    std::lock_guard guard(registry);
    while (ThreadCache *cache = first) {
      first = cache->next;
      if (Heap *heap = cache->heap.load(std::memory_order_relaxed)) heap->end(*cache);
      delete cache;
    }
  }
};
thread_local OwnCaches own;

} // namespace

ThreadCache *Heap::find_cache() noexcept {
  if (!caching_.load(std::memory_order_relaxed) || thread_over) return nullptr;
  for (ThreadCache *cache = own.first; cache; cache = cache->next)
    if (cache->heap.load(std::memory_order_relaxed) == this) return recent_cache = cache;
  return nullptr;
}

ThreadCache *Heap::make_cache() noexcept {
  if (!caching_.load(std::memory_order_relaxed) || thread_over) return nullptr;
  std::lock_guard guard(registry);
  try {
    caches_.reserve(caches_.size() + 1);
    ThreadCache *cache = own.first; // of a heap that is gone
    while (cache && cache->heap.load(std::memory_order_relaxed)) cache = cache->next;
    if (!cache) {
      cache = new ThreadCache;
      cache->thread = History::thread_number();
      cache->next = std::exchange(own.first, cache);
    }
    caches_.push_back(cache);
    std::lock_guard own_guard(cache->lock);
    std::lock_guard heap_guard(lock_);
    cache->page = history_.take_page();
    cache->heap.store(this, std::memory_order_relaxed);
    return recent_cache = cache;
  } catch (const std::bad_alloc &) {
    return nullptr; // it goes without
  }
}

bool Heap::give_to_cache(tb_block *block) noexcept {
  ThreadCache *cache = recent_cache;
  if (!cache || cache->heap.load(std::memory_order_relaxed) != this) [[unlikely]]
    if (!(cache = find_cache()) && !(cache = make_cache())) return false;
  if (cache->lets_pass()) return false;
  std::lock_guard guard(cache->lock);
  if (shut_.load(std::memory_order_relaxed) || block->state != BlockState::live || is_cached(block)) [[unlikely]]
    return false;
  ThreadCache::Lists *lists = cache->find(block->pool);
  if (!lists) [[unlikely]]
    lists = new_lists(*cache, *block->pool);
  if (!cache->has_room(*lists, block)) [[unlikely]]
    make_room(*cache, *lists, block);
  cache->give(block, *lists);
  if (cache->page_is_full()) [[unlikely]]
    turn_page(*cache);
  return true;
}

// A stream that the cache has no lists of yet: those of another one go.
ThreadCache::Lists *Heap::new_lists(ThreadCache &cache, Pool &pool) noexcept {
  ThreadCache::Lists *lists = cache.find(static_cast<const Pool *>(nullptr));
  if (!lists) {
    lists = &cache.all[cache.next_lists++ % ThreadCache::most_streams];
    std::lock_guard guard(lock_);
    settle(cache);
    take_back(cache, *lists);
  }
  lists->pool = &pool;
  lists->stream = pool.stream;
  return cache.recent = lists;
}

void Heap::make_room(ThreadCache &cache, ThreadCache::Lists &lists, const tb_block *block) noexcept {
  std::lock_guard guard(lock_);
  settle(cache);
  size_t bin = block->size / unit;
  take_back(cache, lists, bin, ThreadCache::most_blocks(bin) / 2);
  if (!cache.has_room(lists, block)) take_all_back(cache);
}

void Heap::turn_page(ThreadCache &cache) noexcept {
  std::lock_guard guard(lock_);
  settle(cache);
  cache.page = history_.exchange(cache.page);
}

void Heap::settle(ThreadCache &cache) noexcept {
  if (!cache.untold.load(std::memory_order_relaxed)) return;
  constexpr bool large = false;
  counters_.add(large, cache.blocks, cache.bytes, cache.asked);
  counters_.add(large, Count::inactive_split, cache.blocks.mirrored());
  counters_.add(large, Count::inactive_split_bytes, cache.bytes.mirrored());
  cache.served += cache.blocks.increased;
  cache.blocks = cache.bytes = cache.asked = {};
  cache.untold.store(false, std::memory_order_relaxed);
}

// All of a class but `keep`; settled before.
void Heap::take_back(ThreadCache &cache, ThreadCache::Lists &lists, size_t bin, uint32_t keep) noexcept {
  while (lists.counts[bin] > keep) {
    --lists.counts[bin];
    ++cache.returned;
    tb_block *block = std::exchange(lists.heads[bin], lists.heads[bin]->bin_next);
    auto size = static_cast<int64_t>(block->size);
    cache.held -= size;
    set_cached(block, false);
    counters_.subtract(false, Count::inactive_split, 1);
    counters_.subtract(false, Count::inactive_split_bytes, size);
    block->stamp = block->pool->timeline->epoch;
    put(block);
  }
  if (!lists.counts[bin]) lists.occupied &= ~(uint64_t{1} << (bin - 1));
}

void Heap::take_back(ThreadCache &cache, ThreadCache::Lists &lists) noexcept {
  while (lists.occupied) take_back(cache, lists, static_cast<size_t>(std::countr_zero(lists.occupied)) + 1, 0);
}

void Heap::take_all_back(ThreadCache &cache) noexcept {
  settle(cache);
  for (ThreadCache::Lists &lists : cache.all) take_back(cache, lists);
}

void Heap::end(ThreadCache &cache) noexcept {
  std::lock_guard own_guard(cache.lock);
  std::lock_guard guard(lock_);
  take_all_back(cache);
  if (cache.page) history_.give_page(cache.page);
  std::erase(caches_, &cache);
}

Claim::Claim(Heap &heap) : heap_(heap) {
  registry.lock();
  for (ThreadCache *cache : heap_.caches_) cache->lock.lock();
  heap_.lock_.lock();
  for (ThreadCache *cache : heap_.caches_) heap_.settle(*cache);
}

Claim::~Claim() {
  heap_.lock_.unlock();
  for (ThreadCache *cache : heap_.caches_) cache->lock.unlock();
  registry.unlock();
}

void Heap::take_caches_back(bool for_request) noexcept {
  Claim claim(*this);
  for (ThreadCache *cache : caches_) {
    take_all_back(*cache);
    if (for_request) cache->judge();
    cache->served = cache->returned = 0;
  }
}

Heap::~Heap() {
  std::lock_guard guard(registry);
  for (ThreadCache *cache : caches_) {
    std::lock_guard own_guard(cache->lock);
    cache->heap.store(nullptr, std::memory_order_relaxed);
    cache->page = nullptr;
    cache->held = cache->served = cache->returned = 0;
    cache->losses = cache->rests = 0;
    cache->rest.store(0, std::memory_order_relaxed);
    cache->blocks = cache->bytes = cache->asked = {};
    cache->all = {};
    cache->recent = &cache->all[0];
  }
}

} // namespace tb::allocator
