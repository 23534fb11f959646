// growth.cpp -- a request that no cached block fits: memory from the driver, and back to it.
#include <algorithm>
#include <bit>

#include "heap/heap.h"

namespace tb::allocator {

tb_status Heap::allocate_slow(const Request &request, tb_block **out) {
  std::lock_guard growth(growth_);
  if (paused_) return refuse_paused(); // since the caller looked
  // The blocks in thread caches are small beside a large request, but one may keep a whole segment from going back.
  bool early = request.rounded <= store_.policy.small_limit || store_.policy.whole_segments;
  if (early) caches_.return_all(true);
  if (request.size > size_limit) {
    std::lock_guard guard(store_.lock);
    ++store_.counters.ooms;
  } else {
    if (tb_status status = pages_.use_parts(request, out); status != TB_OUT_OF_MEMORY) return status;
    if (tb_status status = allocate_cached(request, out); status != TB_OK || *out) return status;
    tb_status status = grow(request, out);
    if (status != TB_OUT_OF_MEMORY) return status;
    {
      std::lock_guard guard(store_.lock);
      ++store_.counters.alloc_retries;
    }
    if (!early) caches_.return_all(true);
    // A failure here is one of queued work, which the waiting brought to light.
    if (store_.policy.fixed)
      status = TB_OK;
    else
      status = store_.policy.growing ? frees_.wait_for_all() : release_cached();
    if (status != TB_OK) return status;
    if (status = allocate_cached(request, out); status != TB_OK || *out) return status;
    if (status = grow(request, out); status != TB_OUT_OF_MEMORY) return status;
    if (planner_ && planner_->release_memory()) {
      status = store_.policy.growing ? TB_OK : release_cached();
      if (status != TB_OK) return status;
      if (status = allocate_cached(request, out); status != TB_OK || *out) return status;
      if (status = grow(request, out); status != TB_OUT_OF_MEMORY) return status;
    }
    pages_.release_empty_ranges(); // grow() may have reserved one for this request
    std::lock_guard guard(store_.lock);
    ++store_.counters.ooms;
  }
  return out_of_memory(request);
}

tb_status Heap::allocate_cached(const Request &request, tb_block **out) {
  std::lock_guard guard(store_.lock);
  frees_.poll(UINT32_MAX);
  if (tb_status status = events_.report_failure(); status != TB_OK) return status;
  Pool &pool = store_.pool_of(request.stream, request.rounded > store_.policy.small_limit);
  if (tb_block *found = store_.find_free(pool, request))
    *out = store_.allocate_from(found, request.rounded, request.size);
  return TB_OK;
}

tb_status Heap::grow(const Request &request, tb_block **out) {
  return store_.policy.growing ? grow_pages(request, out) : grow_segments(request, out);
}

// Pages as small as thread caches' blocks would never be free while a block of theirs is cached.
tb_status Heap::find_page() {
  if (tb_status status = pages_.find_page(); status != TB_OK) return status;
  if (store_.page < 2 * ThreadCache::largest) caches_.disable();
  return TB_OK;
}

// Cheaper sources come first:
// 1. a free block of the other streams, of the same kind, whose stream has passed it;
// 2. for a small request, once half of the memory is reserved: a block of the other kind, so that small requests use
// what
//    large ones left before they break a page;
// 3. pages within the soft limit, new or idle ones;
// 4. a block of the other kind;
// 5. pages beyond the soft limit;
// 6. a block of another stream that has not passed it: the request's stream waits for that stream on the device;
// 7. free parts of pages whose other part is in use.
// A fixed heap records no events, so it uses new pages only.
tb_status Heap::grow_pages(const Request &request, tb_block **out) {
  if (tb_status status = find_page(); status != TB_OK) return status;
  if (store_.policy.fixed) return pages_.grow_range(request, true, out);
  tb_status status = take_from_other_stream(request, true, true, out);
  if (status != TB_OUT_OF_MEMORY) return status;
  pages_.return_parts();
  auto fills_half = [&] {
    std::lock_guard guard(store_.lock);
    auto reserved = static_cast<uint64_t>(store_.counters.current(Count::reserved_bytes));
    return reserved >= std::min(store_.limit, store_.policy.total_memory) / 2;
  };
  if (request.rounded <= store_.policy.small_limit && fills_half())
    status = take_from_other_stream(request, false, true, out);
  if (status == TB_OUT_OF_MEMORY) status = pages_.grow_range(request, false, out);
  if (status == TB_OUT_OF_MEMORY) status = take_from_other_stream(request, false, true, out);
  if (status == TB_OUT_OF_MEMORY) status = pages_.grow_range(request, true, out);
  if (status == TB_OUT_OF_MEMORY) status = take_from_other_stream(request, false, false, out);
  if (status == TB_OUT_OF_MEMORY) status = pages_.remap(request, true, out);
  return status;
}

// 1. Of pinned memory: idle segments go back, so that the new one stays within the soft limit.
// 2. A segment of the usual size.
// 3. Near the end of memory: a segment for this request alone.
tb_status Heap::grow_segments(const Request &request, tb_block **out) {
  if (store_.policy.whole_segments) {
    std::lock_guard guard(store_.lock);
    auto asked = static_cast<uint64_t>(store_.counters.current(Count::requested_bytes)) + request.size;
    auto peak = static_cast<uint64_t>(store_.counters.peak(Count::requested_bytes));
    store_.most_active = std::max({store_.most_active, asked, peak});
  }
  uint64_t bytes = segment_size(request.rounded);
  if (store_.policy.whole_segments)
    if (tb_status status = release_idle_for(bytes); status != TB_OK) return status;
  tb_status status = allocate_segment(request, bytes, out);
  uint64_t alone = (request.rounded + store_.policy.large_rounding - 1) & ~(store_.policy.large_rounding - 1);
  if (status == TB_OUT_OF_MEMORY && alone < bytes) status = allocate_segment(request, alone, out);
  return status;
}

uint64_t Heap::segment_size(uint64_t rounded) const {
  if (rounded <= store_.policy.small_limit) {
    if (!store_.policy.whole_segments) return store_.policy.small_segment;
    constexpr uint64_t parts = 64; // one such segment may be nearly empty: 1/64 of what is in use
    return std::clamp(std::bit_floor(store_.most_active / parts), store_.policy.small_limit,
                      store_.policy.small_segment);
  }
  if (rounded < store_.policy.medium_limit) return store_.policy.medium_segment;
  return (rounded + store_.policy.large_rounding - 1) & ~(store_.policy.large_rounding - 1);
}

tb_status Heap::allocate_segment(const Request &request, uint64_t bytes, tb_block **out) {
  {
    std::lock_guard guard(store_.lock);
    if (!store_.admits(bytes)) return TB_OUT_OF_MEMORY;
  }
  void *base = nullptr;
  if (tb_status status = source_->allocate(bytes, &base); status != TB_OK) return status;
  std::lock_guard guard(store_.lock);
  auto *start = static_cast<char *>(base);
  try {
    Pool &pool = store_.pool_of(request.stream, request.rounded > store_.policy.small_limit);
    Segment &segment = store_.segments[start];
    segment.heap = this;
    segment.pool = &pool;
    segment.base = start;
    segment.size = bytes;
    segment.first = store_.new_block(segment, pool, start, bytes);
  } catch (const std::bad_alloc &) {
    store_.segments.erase(start);
    source_->free(base);
    throw;
  }
  tb_block *block = store_.segments[start].first;
  bool large = block->pool->large;
  ++store_.counters.device_alloc;
  store_.history.record(Action::map, base, bytes, request.stream);
  store_.counters.add(large, Count::segment, 1);
  store_.counters.add(large, Count::reserved_bytes, static_cast<int64_t>(bytes));
  *out = store_.allocate_from(store_.insert(block), request.rounded, request.size);
  return TB_OK;
}

// A segment whose memory a plan left has free blocks of several streams.
static bool all_free(const Segment &segment) {
  for (const tb_block *block = segment.first; block; block = block->next)
    if (block->state != BlockState::free) return false;
  return true;
}

// Releases idle segments, so that so many more bytes stay within the soft limit: the smallest that suffices, or the
// largest.
tb_status Heap::release_idle_for(uint64_t bytes) {
  std::vector<Segments::iterator> idle;
  {
    std::lock_guard guard(store_.lock);
    uint64_t after = static_cast<uint64_t>(store_.counters.current(Count::reserved_bytes)) + bytes,
             limit = store_.soft_limit();
    if (after <= limit) return TB_OK;
    for (auto at = store_.segments.begin(); at != store_.segments.end(); ++at)
      if (all_free(at->second)) idle.push_back(at);
    std::sort(idle.begin(), idle.end(), [](auto one, auto other) { return one->second.size < other->second.size; });
    uint64_t surplus = after - limit;
    auto first = idle.end();
    while (first != idle.begin() && surplus) {
      auto least = std::find_if(idle.begin(), first, [=](auto at) { return at->second.size >= surplus; });
      if (least == first) --least;
      surplus -= std::min((*least)->second.size, surplus);
      std::rotate(least, least + 1, first--);
    }
    idle.erase(idle.begin(), first);
    for (auto at : idle) store_.reserve(at->second.first);
  }
  return release_segments(idle);
}

// Releases whole segments whose blocks are reserved, and which nothing queued uses. They are gone also where the driver
// fails.
tb_status Heap::release_segments(const std::vector<Segments::iterator> &segments) {
  tb_status first = TB_OK;
  for (auto at : segments)
    if (tb_status status = source_->free(at->second.base); first == TB_OK) first = status;
  std::lock_guard guard(store_.lock);
  for (auto at : segments) {
    Segment &segment = at->second;
    bool large = segment.pool->large;
    ++store_.counters.device_free;
    store_.counters.subtract(large, Count::segment, 1);
    store_.counters.subtract(large, Count::reserved_bytes, static_cast<int64_t>(segment.size));
    store_.history.record(Action::unmap, segment.base, segment.size, segment.pool->stream);
    while (segment.first) store_.erase(segment.first);
    store_.segments.erase(at);
  }
  return first;
}

tb_status Heap::release_cached() {
  caches_.return_all();
  tb_status first = frees_.wait_for_all();
  auto note = [&](tb_status status) {
    if (first == TB_OK) first = status;
  };
  std::vector<Segments::iterator> segments;
  bool cached;
  {
    std::lock_guard guard(store_.lock);
    cached = store_.policy.growing && store_.counters.current(Count::reserved_bytes);
    segments.reserve(store_.segments.size()); // nothing may throw between reserve() of a block and the end
    for (auto at = store_.segments.begin(); at != store_.segments.end(); ++at) {
      Segment &segment = at->second;
      if (segment.growing || !all_free(segment)) continue;
      segments.push_back(at);
      for (tb_block *block = segment.first; block; block = block->next) store_.reserve(block);
    }
    cached |= !segments.empty();
    if (source_->device() >= 0 && cached) ++store_.counters.sync_all_streams;
  }
  // Work that was queued before the blocks were freed may still use them.
  if (cached) note(pages_.synchronize());
  note(release_segments(segments));
  if (store_.policy.growing) {
    {
      std::lock_guard guard(store_.lock);
      pages_.join_free();
    }
    pages_.return_parts();
    note(pages_.retire_all());
    note(pages_.release_pages());
    note(pages_.release_empty_ranges());
  }
  return first;
}

tb_status Heap::empty_cache() {
  std::lock_guard growth(growth_);
  if (store_.policy.fixed) return TB_OK; // graphs use what is free here
  tb_status first = release_cached();
  tb_status status = events_.destroy_spare();
  return first != TB_OK ? first : status;
}

void Heap::shutdown() {
  std::lock_guard growth(growth_);
  if (planner_) planner_->release_memory();
  {
    std::lock_guard guard(store_.lock);
    store_.policy.fixed = false; // written with both locks
    frees_.release_kept();
  }
  release_cached();
  events_.destroy_spare();
}

} // namespace tb::allocator
