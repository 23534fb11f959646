// pending_frees.cpp -- freed blocks that other streams still use: an event for each, looked at in turn.
#include <algorithm>

#include "heap/heap.h"
#include "plan/program.h"

namespace tb::allocator {

tb_status Heap::record_stream(tb_block *block, tb_stream *stream) {
  if (!stream) stream = default_stream_;
  std::lock_guard guard(lock_);
  if (!is_live(block) && block->state != BlockState::planned)
    return fail(TB_INVALID_ARGUMENT, source_->device(), "record_stream",
                "the block is not allocated any more: record its streams before it is freed");
  if (stream == block->pool->stream && source_->device() >= 0) return TB_OK; // in order by itself
  PendingQueue &queue = queue_of(stream);
  for (Use *use = block->uses; use; use = use->next)
    if (use->queue == &queue) return TB_OK;
  Use *use = uses_.take();
  *use = {&queue, nullptr, block, block->uses};
  block->uses = use;
  return TB_OK;
}

PendingQueue &Heap::queue_of(tb_stream *stream) {
  for (auto &queue : queues_)
    if (queue->stream == stream) return *queue;
  auto queue = std::make_unique<PendingQueue>();
  queue->stream = stream;
  // A driver does not say which device a stream is of; record_event finds out.
  queue->device = source_->device() >= 0 ? source_->device() : host.current_device();
  return *queues_.emplace_back(std::move(queue));
}

void Heap::wait_for_uses(tb_block *block, Use *uses) noexcept {
  // Without the lock: a record waits for room when the stream's queue is full, and the work in it may free memory.
  for (Use *use = uses; use; use = use->next) {
    if (record_event(*use->queue, &use->event) == TB_OK) continue;
    use->event = nullptr;
    // No event to be had: wait here. Slow, and right.
    tb_status status = driver_.api->stream_synchronize(driver_.self, use->queue->stream);
    std::lock_guard guard(lock_);
    note_failure(status);
  }
  std::lock_guard guard(lock_);
  while (Use *use = uses) {
    uses = use->next;
    use->next = nullptr;
    if (!use->event) {
      uses_.give(use);
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

void Heap::complete(tb_block *block) noexcept {
  history_.record(Action::free_completed, block->pointer, block->size, block->pool->stream);
  Program *program = block->segment->program.get();
  counters_.complete(program ? is_large(*block) : block->pool->large, block->size, block->requested);
  program ? program->freed(block) : release(block);
}

void Heap::keep(tb_block *block, Use *uses) noexcept {
  while (Use *use = uses) {
    uses = use->next;
    uses_.give(use);
  }
  block->bin_next = kept_;
  kept_ = block;
}

void Heap::note_failure(tb_status status) noexcept {
  tb_error error{};
  error.struct_size = sizeof error;
  host.take_error(&error); // a text that belongs to no call of the user
  if (status == TB_OK || failure_ != TB_OK) return;
  failure_ = status;
  update_shut();
  snprintf(failure_text_, sizeof failure_text_, "%.255s", error.text);
}

void Heap::keep_event(PendingQueue &queue, tb_event *event) noexcept {
  try {
    queue.events.push_back(event);
  } catch (const std::bad_alloc &) {
    driver_.api->event_destroy(driver_.self, event);
  }
}

tb_status Heap::record_event(PendingQueue &queue, tb_event **out) noexcept {
  tb_event *event = nullptr;
  int32_t device;
  bool settled;
  {
    std::lock_guard guard(lock_);
    device = queue.device;
    settled = queue.settled;
    if (!queue.events.empty()) {
      event = queue.events.back();
      queue.events.pop_back();
    }
  }
  tb_status status = TB_OK;
  if (!event) status = driver_.api->event_create(driver_.self, device, 0, &event);
  if (status == TB_OK) {
    status = driver_.api->event_record(driver_.self, event, queue.stream);
    if (status == TB_OK && settled) {
      *out = event;
      return TB_OK;
    }
  }
  if (status != TB_OK && event) {
    driver_.api->event_destroy(driver_.self, event);
    event = nullptr;
  }
  int32_t count = 0;
  if (status != TB_OK && !settled && host.device_count(&count) == TB_OK) {
    for (int32_t other = 0; other < count && status != TB_OK; ++other) {
      if (other == device || driver_.api->event_create(driver_.self, other, 0, &event) != TB_OK) continue;
      status = driver_.api->event_record(driver_.self, event, queue.stream);
      if (status == TB_OK)
        device = other;
      else
        driver_.api->event_destroy(driver_.self, event);
    }
  }
  if (status != TB_OK) return status;
  std::lock_guard guard(lock_);
  queue.device = device;
  queue.settled = true;
  *out = event;
  return TB_OK;
}

tb_status Heap::refuse_paused() {
  return fail(TB_FAILED_PRECONDITION, source_->device(), "allocate", "the arena is paused: call resume() first");
}

tb_status Heap::report_failure() noexcept {
  tb_status status = std::exchange(failure_, TB_OK);
  update_shut();
  return status == TB_OK ? TB_OK : fail(status, source_->device(), "deallocate", failure_text_);
}

// What a thread finds in its cache costs no look at events. Other allocations look at a few after a pause, which grows
// while there is nothing new: how many looks there are depends on time, not on how much is allocated. So users see
// memory come back without a shortage; who finds no memory looks at all events.
void Heap::look_sometimes() noexcept {
  constexpr uint32_t looks = 4; // bounds the time of one allocation
  constexpr std::chrono::microseconds shortest{8}, longest{1024};
  auto now = std::chrono::steady_clock::now();
  if (now - last_look_ < look_pause_) return;
  uint32_t before = pending_;
  poll(looks);
  last_look_ = now;
  look_pause_ = pending_ != before ? shortest : std::clamp(2 * look_pause_, shortest, longest);
}

void Heap::poll(uint32_t limit) noexcept {
  for (size_t visited = 0; visited < queues_.size() && limit && pending_; ++visited) {
    PendingQueue &queue = *queues_[poll_next_ % queues_.size()];
    while (queue.head && limit) {
      --limit;
      tb_status status = driver_.api->event_query(driver_.self, queue.head->event);
      if (status == TB_NOT_READY) break;
      // The failure of the user's queued work. It is over, so the block is free; the status must reach somebody.
      if (status != TB_OK) note_failure(status);
      finish(queue);
    }
    if (!queue.head || limit) ++poll_next_;
  }
}

void Heap::finish(PendingQueue &queue) noexcept {
  Use *use = queue.head;
  queue.head = use->next;
  if (!queue.head) queue.tail = nullptr;
  --pending_;
  keep_event(queue, use->event);
  tb_block *block = use->block;
  uses_.give(use);
  if (--block->pending) return;
  complete(block);
}

tb_status Heap::wait_for_pending() {
  std::vector<tb_event *> last;
  {
    std::lock_guard guard(lock_);
    for (auto &queue : queues_)
      if (queue->tail) last.push_back(queue->tail->event);
  }
  tb_status first = TB_OK;
  // Another thread may meanwhile finish the use and record the event anew: then this waits longer than needed.
  for (tb_event *event : last)
    if (tb_status status = driver_.api->event_synchronize(driver_.self, event); status != TB_OK && first == TB_OK)
      first = status;
  std::lock_guard guard(lock_);
  poll(UINT32_MAX);
  tb_status status = report_failure();
  return first != TB_OK ? first : status;
}

} // namespace tb::allocator
