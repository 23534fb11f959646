// timeline.cpp -- how far streams have come, and the mappings that they have left behind.
#include <algorithm>

#include "heap/heap.h"

namespace tb::allocator {

// Ends the epoch, unless nothing was freed in it: afterwards the last mark covers all that was freed until now.
tb_status Heap::mark(StreamPools &pools) {
  Timeline &timeline = pools.timeline;
  uint64_t epoch;
  {
    std::lock_guard guard(lock_);
    if (!timeline.queue) timeline.queue = &queue_of(pools.small.stream);
    epoch = timeline.epoch++; // first: what is freed from now on may come after the event
  }
  timeline.marks.push_back({epoch, nullptr});
  tb_status status = record_event(*timeline.queue, &timeline.marks.back().event);
  if (status != TB_OK) timeline.marks.pop_back(); // the next one covers this epoch too
  return status;
}

void Heap::advance(Timeline &timeline) noexcept {
  while (!timeline.marks.empty()) {
    Timeline::Mark mark = timeline.marks.front();
    tb_status status = driver_.api->event_query(driver_.self, mark.event);
    if (status == TB_NOT_READY) return;
    timeline.marks.pop_front();
    std::lock_guard guard(lock_);
    timeline.passed = mark.epoch;
    keep_event(*timeline.queue, mark.event);
    if (status != TB_OK) note_failure(status); // of queued work: over, and somebody must hear of it
  }
}

tb_status Heap::retire(Timeline &timeline) noexcept {
  tb_status first = TB_OK;
  auto &retired = timeline.retired;
  for (size_t at = 0; at < retired.size();) {
    if (retired[at].stamp > timeline.passed) {
      ++at;
      continue;
    }
    tb_block *block = retired[at].block;
    tb_status status = driver_.api->vmm_unmap(driver_.self, block->pointer, block->size);
    if (first == TB_OK) first = status;
    std::lock_guard guard(lock_);
    retired[at] = retired.back();
    retired.pop_back();
    --stale_;
    history_.record(Action::unmap, block->pointer, block->size, block->pool->stream);
    add_hole(block);
  }
  return first;
}

tb_status Heap::retire_all() noexcept {
  constexpr size_t marks_limit = 2; // so many events a stream are enough to see it move
  tb_status first = TB_OK;
  for (size_t index = 0;; ++index) {
    StreamPools *pools;
    {
      std::lock_guard guard(lock_);
      if (index >= pools_.size()) return first;
      pools = pools_[index].get();
    }
    Timeline &timeline = pools->timeline;
    if (timeline.retired.empty()) continue;
    bool open = std::any_of(timeline.retired.begin(), timeline.retired.end(),
                            [&](const Timeline::Retired &one) { return one.stamp >= timeline.epoch; });
    if (open && timeline.marks.size() < marks_limit) mark(*pools);
    advance(timeline);
    tb_status status = retire(timeline);
    if (first == TB_OK) first = status;
  }
}

// Waits for the device; afterwards all that was freed before has passed.
tb_status Heap::synchronize() {
  std::vector<uint64_t> epochs;
  {
    std::lock_guard guard(lock_);
    epochs.reserve(pools_.size());
    for (auto &pools : pools_) epochs.push_back(pools->timeline.epoch++);
  }
  tb_status first = source_->synchronize();
  std::lock_guard guard(lock_);
  for (size_t index = 0; index < epochs.size(); ++index) {
    Timeline &timeline = pools_[index]->timeline;
    timeline.passed = epochs[index];
    while (!timeline.marks.empty() && timeline.marks.front().epoch <= timeline.passed) {
      keep_event(*timeline.queue, timeline.marks.front().event);
      timeline.marks.pop_front();
    }
  }
  return first;
}

} // namespace tb::allocator
