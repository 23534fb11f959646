// heap.cpp -- the path of an allocation and of a deallocation that no thread cache serves.
#include "heap/heap.h"

#include <algorithm>
#include <cstdio>

namespace tb::allocator {

Heap::Heap(const Driver &driver, std::unique_ptr<Source> source, const HeapPolicy &policy)
    : caches_(store_, policy.thread_caches && !policy.fixed), driver_(driver), source_(std::move(source)),
      store_(this, policy), events_(store_, driver_, *source_, caches_.stop),
      pages_(store_, events_, driver_, *source_), frees_(store_, events_, driver_, *source_) {
  store_.history.resize(policy.history);
  if (source_->device() >= 0 &&
      driver_.api->stream_default(driver_.self, source_->device(), &store_.default_stream) != TB_OK)
    store_.default_stream = nullptr; // only NULL itself is then the default stream
}

Heap::~Heap() { caches_.detach(); }

// Flattened, as is its counterpart: the calls inside of these two took 5 % of all instructions of a replay.
[[gnu::flatten]] tb_status Heap::allocate_uncached(uint64_t size, tb_stream *stream, void **out_pointer,
                                                   tb_block **out_block) {
  if (size == 0) {
    *out_pointer = nullptr;
    *out_block = nullptr;
    return TB_OK;
  }
  if (!stream) stream = store_.default_stream;
  Request request{size, round(size), stream};
  tb_block *block = nullptr;
  ThreadCache *mine = recent_cache;
  if (!caches_.serves(mine)) [[unlikely]]
    if ((mine = caches_.find()) && request.rounded <= ThreadCache::largest)
      block = caches_.take(*mine, request.rounded, size, stream);
  if (!block) {
    HeapLock lock(store_, caches_, mine);
    if (tb_status status = check_state(); status != TB_OK) [[unlikely]]
      return status;
    Pool &pool = store_.pool_of(stream, request.rounded > store_.policy.small_limit);
    tb_block *found = store_.find_free(pool, request);
    if (!found || found->size - request.rounded >= pool.large_remainder) [[unlikely]]
      found = better_fit(found, pool, request);
    if (found) [[likely]]
      block = store_.allocate_from(found, request.rounded, size);
  }
  if (!block) [[unlikely]]
    if (tb_status status = allocate_slow(request, &block); status != TB_OK) return status;
  *out_pointer = block->pointer;
  *out_block = block;
  return TB_OK;
}

[[gnu::flatten]] void Heap::deallocate_uncached(tb_block *block) noexcept {
  Use *uses;
  ThreadCache *mine = recent_cache;
  {
    if (block->state == BlockState::planned) [[unlikely]]
      return planner_->free_planned(block);
    HeapLock lock(store_, caches_, caches_.serves(mine) ? mine : nullptr);
    if (!is_allocated(block)) [[unlikely]] {
      fprintf(stderr, "tb-allocator: deallocate of a block that is not allocated: freed twice? Ignored.\n");
      return;
    }
    bool large = block->pool->large;
    uses = block->uses;
    store_.history.record(uses ? Action::free_requested : Action::free, block->pointer, block->size,
                          block->pool->stream);
    if (!uses) [[likely]] {
      store_.counters.free(large, block->size, block->requested);
      store_.release(block);
      return;
    }
    store_.counters.leave(large, block->size);
    block->uses = nullptr;
    block->state = BlockState::pending;
    if (store_.policy.fixed) {
      frees_.keep(block, uses);
      return;
    }
  }
  frees_.wait_for_uses(block, uses);
}

tb_status Heap::refuse_paused() {
  return fail(TB_FAILED_PRECONDITION, source_->device(), "allocate", "the arena is paused: call resume() first");
}

tb_block *Heap::find(const void *pointer) {
  auto *address = static_cast<char *>(const_cast<void *>(pointer));
  std::lock_guard guard(store_.lock);
  auto after = store_.segments.upper_bound(address);
  if (after == store_.segments.begin()) return nullptr;
  const Segment &segment = std::prev(after)->second;
  if (address >= segment.base + segment.size) return nullptr;
  if (segment.placed) return segment.placed->find(address);
  tb_block *block = segment.first;
  while (block && address >= block->pointer + block->size) block = block->next;
  return block && is_allocated(block) ? block : nullptr;
}

void Heap::statistics(tb_allocator_statistics *out) {
  FlushedLock lock(caches_);
  store_.counters.read(out);
}

void Heap::reset_peak() {
  FlushedLock lock(caches_);
  store_.counters.reset_peak();
}

void Heap::reset_accumulated() {
  FlushedLock lock(caches_);
  store_.counters.reset_accumulated();
}

void Heap::set_limit(uint64_t bytes) {
  std::lock_guard guard(store_.lock);
  store_.limit = bytes;
  if (store_.policy.total) store_.policy.total->limit = bytes;
}

void Heap::retract_out_of_memory() {
  std::lock_guard guard(store_.lock);
  --store_.counters.ooms;
}

bool Heap::has_allocated_blocks() {
  FlushedLock lock(caches_);
  return store_.counters.current(Count::allocation) != 0;
}

} // namespace tb::allocator
