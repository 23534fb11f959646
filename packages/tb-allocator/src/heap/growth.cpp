// growth.cpp -- when no cached block fits: memory from the driver, and back to it.
#include <algorithm>
#include <bit>

#include "heap/heap_lock.h"

namespace tb::allocator {

tb_status Heap::allocate_slow(const Request &request, tb_block **out) {
  std::lock_guard growth(growth_);
  if (paused_) return refuse_paused(); // since the caller looked
  // What caches hold makes no room for large requests to speak of, but may keep a whole segment from going back.
  bool early = request.rounded <= policy_.small_limit || policy_.whole_segments;
  if (early) take_caches_back(true);
  if (request.size > size_limit) {
    std::lock_guard guard(lock_);
    ++counters_.ooms;
  } else {
    if (tb_status status = use_parts(request, out); status != TB_OUT_OF_MEMORY) return status;
    if (tb_status status = take_cached(request, out); status != TB_OK || *out) return status;
    tb_status status = grow(request, out);
    if (status != TB_OUT_OF_MEMORY) return status;
    {
      std::lock_guard guard(lock_);
      ++counters_.alloc_retries;
    }
    if (!early) take_caches_back(true);
    // Its failure is that of somebody's queued work, which the waiting brought to light. The memory is free all the same.
    if (policy_.fixed)
      status = TB_OK;
    else
      status = policy_.growing ? wait_for_pending() : release_cached();
    if (status != TB_OK) return status;
    if (status = take_cached(request, out); status != TB_OK || *out) return status;
    if (status = grow(request, out); status != TB_OUT_OF_MEMORY) return status;
    if (drop_idle_places()) {
      status = policy_.growing ? TB_OK : release_cached();
      if (status != TB_OK) return status;
      if (status = take_cached(request, out); status != TB_OK || *out) return status;
      if (status = grow(request, out); status != TB_OUT_OF_MEMORY) return status;
    }
    release_empty_ranges(); // that one of this request
    std::lock_guard guard(lock_);
    ++counters_.ooms;
  }
  return out_of_memory(request);
}

tb_status Heap::take_cached(const Request &request, tb_block **out) {
  std::lock_guard guard(lock_);
  poll(UINT32_MAX);
  if (tb_status status = report_failure(); status != TB_OK) return status;
  Pool &pool = pool_of(request.stream, request.rounded > policy_.small_limit);
  if (tb_block *found = find_free(pool, request)) *out = take(found, request.rounded, request.size);
  return TB_OK;
}

tb_status Heap::grow(const Request &request, tb_block **out) {
  if (policy_.growing) {
    if (policy_.fixed) return grow_range(request, true, out); // and other streams get nothing, for want of events
    // Cheap before dear: what other streams have passed, pages within the soft limit, what lies idle among blocks of
    // the other kind, more pages, waiting on the device, parts of pages. From half of the memory on small requests do
    // not break a page before what large ones left is used up.
    tb_status status = adopt(request, true, true, out);
    if (status != TB_OUT_OF_MEMORY) return status;
    return_parts();
    auto fills_half = [&] {
      std::lock_guard guard(lock_);
      auto reserved = static_cast<uint64_t>(counters_.current(Count::reserved_bytes));
      return reserved >= std::min(limit_, policy_.total_memory) / 2;
    };
    if (request.rounded <= policy_.small_limit && fills_half()) status = adopt(request, false, true, out);
    if (status == TB_OUT_OF_MEMORY) status = grow_range(request, false, out);
    if (status == TB_OUT_OF_MEMORY) status = adopt(request, false, true, out);
    if (status == TB_OUT_OF_MEMORY) status = grow_range(request, true, out);
    if (status == TB_OUT_OF_MEMORY) status = adopt(request, false, false, out);
    if (status == TB_OUT_OF_MEMORY) status = splice(request, true, out);
    return status;
  }
  if (policy_.whole_segments) {
    std::lock_guard guard(lock_);
    auto asked = static_cast<uint64_t>(counters_.current(Count::requested_bytes)) + request.size;
    most_active_ = std::max({most_active_, asked, static_cast<uint64_t>(counters_.peak(Count::requested_bytes))});
  }
  uint64_t bytes = segment_size(request.rounded);
  if (policy_.whole_segments)
    if (tb_status status = give_back_for(bytes); status != TB_OK) return status;
  tb_status status = grow_segment(request, bytes, out);
  // Near the end of memory a segment for this request alone may still fit.
  uint64_t alone = (request.rounded + policy_.large_rounding - 1) & ~(policy_.large_rounding - 1);
  if (status == TB_OUT_OF_MEMORY && alone < bytes) status = grow_segment(request, alone, out);
  return status;
}

uint64_t Heap::segment_size(uint64_t rounded) const {
  if (rounded <= policy_.small_limit) {
    if (!policy_.whole_segments) return policy_.small_segment;
    constexpr uint64_t parts = 64; // what is in use bears one such segment that is nearly empty
    return std::clamp(std::bit_floor(most_active_ / parts), policy_.small_limit, policy_.small_segment);
  }
  if (rounded < policy_.medium_limit) return policy_.medium_segment;
  return (rounded + policy_.large_rounding - 1) & ~(policy_.large_rounding - 1);
}

bool Heap::admits(uint64_t bytes) {
  std::lock_guard guard(lock_);
  auto reserved = static_cast<uint64_t>(counters_.current(Count::reserved_bytes));
  return bytes <= limit_ && reserved <= limit_ - bytes;
}

tb_status Heap::grow_segment(const Request &request, uint64_t bytes, tb_block **out) {
  if (!admits(bytes)) return TB_OUT_OF_MEMORY;
  void *base = nullptr;
  if (tb_status status = source_->allocate(bytes, &base); status != TB_OK) return status;
  std::lock_guard guard(lock_);
  auto *start = static_cast<char *>(base);
  try {
    Pool &pool = pool_of(request.stream, request.rounded > policy_.small_limit);
    Segment &segment = segments_[start];
    segment.heap = this;
    segment.pool = &pool;
    segment.base = start;
    segment.size = bytes;
    segment.first = new_block(segment, pool, start, bytes);
  } catch (const std::bad_alloc &) {
    segments_.erase(start);
    source_->free(base);
    throw;
  }
  tb_block *block = segments_[start].first;
  bool large = block->pool->large;
  ++counters_.device_alloc;
  history_.record(Action::map, base, bytes, request.stream);
  counters_.add(large, Count::segment, 1);
  counters_.add(large, Count::reserved_bytes, static_cast<int64_t>(bytes));
  *out = take(put(block), request.rounded, request.size);
  return TB_OK;
}

// What a plan left is in pieces of several streams.
static bool all_free(const Segment &segment) {
  for (const tb_block *block = segment.first; block; block = block->next)
    if (block->state != BlockState::free) return false;
  return true;
}

// Idle segments, so that so many more bytes stay within the soft limit: the smallest that suffices, or the largest.
tb_status Heap::give_back_for(uint64_t bytes) {
  std::vector<Segments::iterator> idle;
  {
    std::lock_guard guard(lock_);
    uint64_t after = static_cast<uint64_t>(counters_.current(Count::reserved_bytes)) + bytes, limit = soft_limit();
    if (after <= limit) return TB_OK;
    for (auto at = segments_.begin(); at != segments_.end(); ++at)
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
    for (auto at : idle) take_out(at->second.first); // nobody gets it any more
  }
  return release_held(idle);
}

// Whole segments whose blocks are held, and which nothing queued uses. They are gone even where the driver fails.
tb_status Heap::release_held(const std::vector<Segments::iterator> &segments) {
  tb_status first = TB_OK;
  for (auto at : segments)
    if (tb_status status = source_->free(at->second.base); first == TB_OK) first = status;
  std::lock_guard guard(lock_);
  for (auto at : segments) {
    Segment &segment = at->second;
    bool large = segment.pool->large;
    ++counters_.device_free;
    counters_.subtract(large, Count::segment, 1);
    counters_.subtract(large, Count::reserved_bytes, static_cast<int64_t>(segment.size));
    history_.record(Action::unmap, segment.base, segment.size, segment.pool->stream);
    while (segment.first) unlink(segment.first);
    segments_.erase(at);
  }
  return first;
}

tb_status Heap::release_cached() {
  take_caches_back();
  tb_status first = wait_for_pending();
  auto note = [&](tb_status status) {
    if (first == TB_OK) first = status;
  };
  std::vector<Segments::iterator> segments;
  bool cached;
  {
    std::lock_guard guard(lock_);
    cached = policy_.growing && counters_.current(Count::reserved_bytes);
    segments.reserve(segments_.size()); // nothing may throw between take_out and the end
    for (auto at = segments_.begin(); at != segments_.end(); ++at) {
      Segment &segment = at->second;
      if (segment.growing || !all_free(segment)) continue;
      segments.push_back(at);
      for (tb_block *block = segment.first; block; block = block->next) take_out(block); // nobody gets it any more
    }
    cached |= !segments.empty();
    if (source_->device() >= 0 && cached) ++counters_.sync_all_streams;
  }
  // Work queued before the blocks were freed may still use them.
  if (cached) note(synchronize());
  note(release_held(segments));
  if (policy_.growing) {
    {
      std::lock_guard guard(lock_);
      join_free();
    }
    return_parts();
    note(retire_all());
    note(release_pages());
    note(release_empty_ranges());
  }
  return first;
}

tb_status Heap::empty_cache() {
  std::lock_guard growth(growth_);
  if (policy_.fixed) return TB_OK; // graphs use what is free here
  tb_status first = release_cached();
  std::vector<tb_event *> spare;
  {
    std::lock_guard guard(lock_);
    for (auto &queue : queues_) {
      spare.insert(spare.end(), queue->events.begin(), queue->events.end());
      queue->events.clear();
    }
  }
  for (tb_event *event : spare)
    if (tb_status status = driver_.api->event_destroy(driver_.self, event); status != TB_OK && first == TB_OK)
      first = status;
  return first;
}

bool Heap::has_live_blocks() {
  Claim claim(*this);
  return counters_.current(Count::allocation) != 0;
}

void Heap::shutdown() {
  std::lock_guard growth(growth_);
  drop_idle_places();
  {
    std::lock_guard guard(lock_);
    policy_.fixed = false; // both locks: readers hold one
    while (tb_block *block = kept_) {
      kept_ = block->bin_next;
      complete(block);
    }
  }
  release_cached();
  std::lock_guard guard(lock_);
  for (auto &queue : queues_) {
    for (tb_event *event : queue->events) driver_.api->event_destroy(driver_.self, event);
    queue->events.clear();
  }
}

} // namespace tb::allocator
