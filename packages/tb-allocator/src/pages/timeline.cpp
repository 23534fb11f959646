// timeline.cpp -- the progress of streams, and the stale mappings that they have passed.
#include <algorithm>
#include <mutex>

#include "pages/page_mapper.h"

namespace tb::allocator {

tb_status PageMapper::mark(StreamPools &pools) {
  Timeline &timeline = pools.timeline;
  uint64_t epoch;
  {
    std::lock_guard guard(store_.lock);
    if (!timeline.queue) timeline.queue = &events_.queue_of(pools.small.stream);
    epoch = timeline.epoch++; // before the event is recorded: later frees may come after it
  }
  timeline.marks.push_back({epoch, nullptr});
  tb_status status = events_.record(*timeline.queue, &timeline.marks.back().event);
  if (status != TB_OK) timeline.marks.pop_back(); // the next mark covers this epoch too
  return status;
}

void PageMapper::advance(Timeline &timeline) noexcept {
  while (!timeline.marks.empty()) {
    Timeline::Mark mark = timeline.marks.front();
    tb_status status = driver_.api->event_query(driver_.self, mark.event);
    if (status == TB_NOT_READY) return;
    timeline.marks.pop_front();
    std::lock_guard guard(store_.lock);
    timeline.passed = mark.epoch;
    events_.recycle(*timeline.queue, mark.event);
    if (status != TB_OK) events_.note_failure(status);
  }
}

tb_status PageMapper::retire(Timeline &timeline) noexcept {
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
    std::lock_guard guard(store_.lock);
    retired[at] = retired.back();
    retired.pop_back();
    --stale_;
    store_.history.record(Action::unmap, block->pointer, block->size, block->pool->stream);
    add_hole(block);
  }
  return first;
}

tb_status PageMapper::retire_all() noexcept {
  constexpr size_t marks_limit = 2; // pending events of a stream: enough to see it move
  tb_status first = TB_OK;
  for (size_t index = 0;; ++index) {
    StreamPools *pools;
    {
      std::lock_guard guard(store_.lock);
      if (index >= store_.pools.size()) return first;
      pools = store_.pools[index].get();
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

tb_status PageMapper::synchronize() {
  std::vector<uint64_t> epochs;
  {
    std::lock_guard guard(store_.lock);
    epochs.reserve(store_.pools.size());
    for (auto &pools : store_.pools) epochs.push_back(pools->timeline.epoch++);
  }
  tb_status first = source_.synchronize();
  std::lock_guard guard(store_.lock);
  for (size_t index = 0; index < epochs.size(); ++index) {
    Timeline &timeline = store_.pools[index]->timeline;
    timeline.passed = epochs[index];
    while (!timeline.marks.empty() && timeline.marks.front().epoch <= timeline.passed) {
      events_.recycle(*timeline.queue, timeline.marks.front().event);
      timeline.marks.pop_front();
    }
  }
  return first;
}

} // namespace tb::allocator
