// pending_frees.cpp -- an event for each stream that still uses a freed block, and looking at these events.
#include "heap/pending_frees.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace tb::allocator {

tb_status PendingFrees::record_stream(tb_block *block, tb_stream *stream) {
  if (!stream) stream = store_.default_stream;
  std::lock_guard guard(store_.lock);
  if (!is_allocated(block) && block->state != BlockState::planned)
    return fail(TB_INVALID_ARGUMENT, source_.device(), "record_stream",
                "the block is not allocated any more: record its streams before it is freed");
  if (stream == block->pool->stream && source_.device() >= 0) return TB_OK; // in order by itself
  PendingQueue &queue = events_.queue_of(stream);
  for (Use *use = block->uses; use; use = use->next)
    if (use->queue == &queue) return TB_OK;
  Use *use = records_.take();
  *use = {&queue, nullptr, block, block->uses};
  block->uses = use;
  return TB_OK;
}

void PendingFrees::wait_for_uses(tb_block *block, Use *uses) noexcept {
  // Without the lock: recording an event waits for room when the stream's queue is full, and the queued work may free
  // memory.
  for (Use *use = uses; use; use = use->next) {
    if (events_.record(*use->queue, &use->event) == TB_OK) continue;
    use->event = nullptr;
    // Without an event, wait here: slow, but correct.
    tb_status status = driver_.api->stream_synchronize(driver_.self, use->queue->stream);
    std::lock_guard guard(store_.lock);
    events_.note_failure(status);
  }
  std::lock_guard guard(store_.lock);
  while (Use *use = uses) {
    uses = use->next;
    use->next = nullptr;
    if (!use->event) {
      records_.release(use);
      continue;
    }
    PendingQueue &queue = *use->queue;
    (queue.tail ? queue.tail->next : queue.head) = use;
    queue.tail = use;
    ++block->pending;
    if (!pending_++) look_pause_ = {};
  }
  if (block->pending) return;
  complete(block);
}

void PendingFrees::complete(tb_block *block) noexcept {
  store_.history.record(Action::free_completed, block->pointer, block->size, block->pool->stream);
  PlacedBlocks *placed = block->segment->placed.get();
  bool large = placed ? block->size > store_.policy.small_limit : block->pool->large;
  store_.counters.complete(large, block->size, block->requested);
  placed ? placed->freed(block) : store_.release(block);
}

void PendingFrees::drop(Use *uses) noexcept {
  while (Use *use = uses) {
    uses = use->next;
    records_.release(use);
  }
}

void PendingFrees::keep(tb_block *block, Use *uses) noexcept {
  drop(uses);
  block->bin_next = kept_;
  kept_ = block;
}

void PendingFrees::release_kept() noexcept {
  while (tb_block *block = kept_) {
    kept_ = block->bin_next;
    complete(block);
  }
}

// A thread that finds a block in its cache looks at no events. Other allocations look at a few after a pause, which
// grows while nothing new is found. So how many looks there are depends on time, not on how much is allocated. Users
// see memory return without a shortage; a request that finds no memory looks at all events.
void PendingFrees::poll_sometimes() noexcept {
  constexpr uint32_t looks = 4; // bounds the time of one allocation
  constexpr std::chrono::microseconds shortest{8}, longest{1024};
  auto now = std::chrono::steady_clock::now();
  if (now - last_look_ < look_pause_) return;
  uint32_t before = pending_;
  poll(looks);
  last_look_ = now;
  look_pause_ = pending_ != before ? shortest : std::clamp(2 * look_pause_, shortest, longest);
}

void PendingFrees::poll(uint32_t limit) noexcept {
  const auto &queues = events_.queues();
  for (size_t visited = 0; visited < queues.size() && limit && pending_; ++visited) {
    PendingQueue &queue = *queues[next_queue_ % queues.size()];
    while (queue.head && limit) {
      --limit;
      tb_status status = driver_.api->event_query(driver_.self, queue.head->event);
      if (status == TB_NOT_READY) break;
      // The user's queued work failed. It is over, so the block is free; the status must still be reported.
      if (status != TB_OK) events_.note_failure(status);
      finish(queue);
    }
    if (!queue.head || limit) ++next_queue_;
  }
}

void PendingFrees::finish(PendingQueue &queue) noexcept {
  Use *use = queue.head;
  queue.head = use->next;
  if (!queue.head) queue.tail = nullptr;
  --pending_;
  events_.recycle(queue, use->event);
  tb_block *block = use->block;
  records_.release(use);
  if (--block->pending) return;
  complete(block);
}

tb_status PendingFrees::wait_for_all() {
  std::vector<tb_event *> last;
  {
    std::lock_guard guard(store_.lock);
    for (auto &queue : events_.queues())
      if (queue->tail) last.push_back(queue->tail->event);
  }
  tb_status first = TB_OK;
  // Another thread may meanwhile finish the use and record the event again; then this waits longer than needed.
  for (tb_event *event : last)
    if (tb_status status = driver_.api->event_synchronize(driver_.self, event); status != TB_OK && first == TB_OK)
      first = status;
  std::lock_guard guard(store_.lock);
  poll(UINT32_MAX);
  tb_status status = events_.report_failure();
  return first != TB_OK ? first : status;
}

} // namespace tb::allocator
