// heap.cpp -- the path of every allocation: cached blocks, cut, merged and counted.
#include "heap/heap.h"

#include <algorithm>
#include <bit>

#include "heap/heap_lock.h"

namespace tb::allocator {
namespace {

// Whether memory next to the block, in the same segment, belongs to another block.
inline bool shares(const tb_block *block) {
  return (block->previous && block->previous->state < BlockState::unmapped) ||
         (block->next && block->next->state < BlockState::unmapped);
}

} // namespace

HeapPolicy device_policy(const Configuration &configuration, const tb_device_info &device, bool virtual_memory) {
  HeapPolicy policy;
  if (device.alignment > unit) policy.granule = std::bit_ceil(uint64_t{device.alignment});
  // A device that is the host's own memory fares better with plain memory: the system gives it large pages of its own.
  bool host = device.flags & TB_DEVICE_HOST_ACCESSIBLE;
  policy.growing = configuration.expandable_segments.value_or(virtual_memory && !host);
  if (policy.growing) policy.small_limit = paged_small_limit;
  policy.total_memory = device.total_memory;
  if (configuration.per_process_memory_fraction < 1)
    policy.limit =
        static_cast<uint64_t>(configuration.per_process_memory_fraction * static_cast<double>(device.total_memory));
  policy.slack = configuration.slack;
  policy.history = configuration.history;
  return policy;
}

HeapPolicy pinned_policy(const Configuration &configuration) {
  HeapPolicy policy;
  policy.small_limit = 64 << 10;
  policy.large_rounding = 4 << 10;
  policy.medium_limit = 0;
  policy.whole_segments = true;
  policy.slack = configuration.pinned_slack;
  return policy;
}

Heap::Heap(const Driver &driver, std::unique_ptr<Source> source, const HeapPolicy &policy)
    : driver_(driver), source_(std::move(source)), policy_(policy), caching_(policy.thread_caches && !policy.fixed),
      limit_(policy.limit) {
  history_.resize(policy_.history);
  if (source_->device() >= 0 && driver_.api->stream_default(driver_.self, source_->device(), &default_stream_) != TB_OK)
    default_stream_ = nullptr; // only NULL itself is then the default stream
}

// Flattened, as is its counterpart: the calls inside of these two took 5 % of all instructions of a replay.
[[gnu::flatten]] tb_status Heap::allocate_dynamic(uint64_t size, tb_stream *stream, void **out_pointer,
                                                  tb_block **out_block) {
  if (size == 0) {
    *out_pointer = nullptr;
    *out_block = nullptr;
    return TB_OK;
  }
  if (!stream) stream = default_stream_;
  Request request{size, round(size), stream};
  tb_block *block = nullptr;
  ThreadCache *mine = recent_cache;
  if (!mine || mine->heap.load(std::memory_order_relaxed) != this) [[unlikely]]
    if ((mine = find_cache()) && request.rounded <= ThreadCache::largest)
      block = take_from_cache(*mine, request.rounded, size, stream);
  if (!block) {
    Guard guard(*this, mine);
    if (tb_status status = settle_first(); status != TB_OK) [[unlikely]]
      return status;
    Pool &pool = pool_of(stream, request.rounded > policy_.small_limit);
    tb_block *found = find_free(pool, request);
    if (!found || found->size - request.rounded >= pool.long_rest) [[unlikely]]
      found = adopt_instead(found, pool, request);
    if (found) [[likely]]
      block = take(found, request.rounded, size);
  }
  if (!block) [[unlikely]]
    if (tb_status status = allocate_slow(request, &block); status != TB_OK) return status;
  *out_pointer = block->pointer;
  *out_block = block;
  return TB_OK;
}

[[gnu::flatten]] void Heap::deallocate_dynamic(tb_block *block) noexcept {
  Use *uses;
  ThreadCache *mine = recent_cache;
  {
    if (block->state == BlockState::planned) [[unlikely]]
      return deallocate_planned(block);
    Guard guard(*this, mine && mine->heap.load(std::memory_order_relaxed) == this ? mine : nullptr);
    if (!is_live(block)) [[unlikely]] {
      fprintf(stderr, "tb-allocator: deallocate of a block that is not allocated: freed twice? Ignored.\n");
      return;
    }
    bool large = block->pool->large;
    uses = block->uses;
    history_.record(uses ? Action::free_requested : Action::free, block->pointer, block->size, block->pool->stream);
    if (!uses) [[likely]] {
      counters_.free(large, block->size, block->requested);
      release(block);
      return;
    }
    counters_.leave(large, block->size);
    block->uses = nullptr;
    block->state = BlockState::pending;
    if (policy_.fixed) {
      keep(block, uses);
      return;
    }
  }
  wait_for_uses(block, uses);
}

tb_block *Heap::find(const void *pointer) {
  auto *address = static_cast<char *>(const_cast<void *>(pointer));
  std::lock_guard guard(lock_);
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return nullptr;
  const Segment &segment = std::prev(after)->second;
  if (address >= segment.base + segment.size) return nullptr;
  if (segment.program) return find_planned(*segment.program, address);
  tb_block *block = segment.first;
  while (block && address >= block->pointer + block->size) block = block->next;
  return block && is_live(block) ? block : nullptr;
}

void Heap::statistics(tb_allocator_statistics *out) {
  Claim claim(*this);
  counters_.read(out);
}

void Heap::reset_peak() {
  Claim claim(*this);
  counters_.reset_peak();
}

void Heap::reset_accumulated() {
  Claim claim(*this);
  counters_.reset_accumulated();
}

void Heap::set_limit(uint64_t bytes) {
  std::lock_guard guard(lock_);
  limit_ = bytes;
}

StreamPools *Heap::find_pools(tb_stream *stream) {
  StreamPools *&recent = recent_[place_of(stream)];
  if (recent && recent->small.stream == stream) return recent;
  auto found = std::find_if(pools_.begin(), pools_.end(), [=](auto &pools) { return pools->small.stream == stream; });
  if (found == pools_.end()) {
    auto pools = std::make_unique<StreamPools>();
    pools->small.stream = pools->large.stream = stream;
    pools->large.large = true;
    pools->small.timeline = pools->large.timeline = &pools->timeline;
    // A rest of at most 1 MiB could serve small requests only, and those have their own segments.
    if (!policy_.growing) pools->large.least_rest = policy_.whole_segments ? size_limit : policy_.small_limit + unit;
    if (page_) pools->large.long_rest = page_;
    found = pools_.insert(found, std::move(pools));
  }
  return recent = found->get();
}

// What large blocks have beyond what was asked, and what small ones leave of their segments, stays within the slack:
// while it does, all that is not idle does not pass the soft limit.
bool Heap::affords(const tb_block &found, uint64_t size) const noexcept {
  uint64_t rest = found.size - size;
  if (!found.pool->large || rest < policy_.large_rounding) [[likely]]
    return true;
  int64_t more = counters_.active_bytes(true) + counters_.current(false, Count::reserved_bytes) -
                 counters_.current(Count::requested_bytes);
  return static_cast<uint64_t>(more) + rest <= soft_limit() - most_active_;
}

tb_block *Heap::take(tb_block *free, uint64_t rounded, uint64_t requested) {
  Pool &pool = *free->pool;
  bool large = pool.large;
  bool shared = shares(free);
  uint64_t rest = free->size - rounded;
  tb_block *block = free;
  if (rest >= pool.least_rest) {
    block = blocks_.take();
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
    pool.bins.resize(free, rest);
    if (shared) {
      counters_.subtract(large, Count::inactive_split_bytes, static_cast<int64_t>(rounded));
    } else {
      counters_.add(large, Count::inactive_split, 1);
      counters_.add(large, Count::inactive_split_bytes, static_cast<int64_t>(rest));
    }
  } else {
    pool.bins.remove(free);
    if (shared) {
      counters_.subtract(large, Count::inactive_split, 1);
      counters_.subtract(large, Count::inactive_split_bytes, static_cast<int64_t>(free->size));
    }
  }
  block->state = BlockState::live;
  block->requested = requested;
  counters_.allocate(large, block->size, requested);
  history_.record(Action::allocate, block->pointer, block->size, pool.stream);
  return block;
}

void Heap::release(tb_block *block) noexcept {
  block->stamp = block->pool->timeline->epoch;
  put(block);
}

tb_block *Heap::put(tb_block *block) noexcept {
  Pool &pool = *block->pool;
  tb_block *previous = block->previous, *next = block->next;
  // What another stream freed beside it, and has passed, comes along: so addresses grow together again.
  auto joins = [&](tb_block *other) {
    if (!other || other->state != BlockState::free) return false;
    if (other->pool == &pool) return true;
    if (other->stamp > other->pool->timeline->passed) return false;
    give(other, pool);
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
    unlink(block);
    if (join_next) {
      stamp = std::max(stamp, next->stamp);
      size += next->size;
      count -= 1;
      bytes -= static_cast<int64_t>(next->size);
      pool.bins.remove(next);
      unlink(next);
    }
    pool.bins.resize(previous, size);
  } else if (join_next) {
    whole = next;
    stamp = std::max(stamp, next->stamp);
    uint64_t size = block->size + next->size;
    count -= 1;
    bytes -= static_cast<int64_t>(next->size);
    next->pointer = block->pointer;
    unlink(block);
    pool.bins.resize(next, size);
  } else {
    block->state = BlockState::free;
    pool.bins.insert(block);
  }
  whole->stamp = stamp;
  if (shares(whole)) {
    count += 1;
    bytes += static_cast<int64_t>(whole->size);
  }
  counters_.change(pool.large, Count::inactive_split, count);
  counters_.change(pool.large, Count::inactive_split_bytes, bytes);
  return whole;
}

void Heap::give(tb_block *free, Pool &pool) noexcept {
  free->pool->bins.remove(free);
  free->pool = &pool;
  free->stamp = 0;
  pool.bins.insert(free);
}

void Heap::take_out(tb_block *block) noexcept {
  Pool &pool = *block->pool;
  pool.bins.remove(block);
  block->state = BlockState::held;
  if (!shares(block)) return;
  counters_.subtract(pool.large, Count::inactive_split, 1);
  counters_.subtract(pool.large, Count::inactive_split_bytes, static_cast<int64_t>(block->size));
}

void Heap::unlink(tb_block *block) noexcept {
  if (block->previous)
    block->previous->next = block->next;
  else
    block->segment->first = block->next;
  if (block->next) block->next->previous = block->previous;
  block->state = BlockState::unused;
  blocks_.give(block);
}

tb_block *Heap::new_block(Segment &segment, Pool &pool, char *pointer, uint64_t size) {
  tb_block *block = blocks_.take();
  *block = {};
  block->pointer = pointer;
  block->size = size;
  block->segment = &segment;
  block->pool = &pool;
  return block;
}

void Heap::insert_before(tb_block *block, tb_block *added) noexcept {
  added->next = block;
  added->previous = block->previous;
  (added->previous ? added->previous->next : block->segment->first) = added;
  block->previous = added;
}

void Heap::insert_after(tb_block *block, tb_block *added) noexcept {
  added->previous = block;
  added->next = block->next;
  if (added->next) added->next->previous = added;
  block->next = added;
}

} // namespace tb::allocator
