// stream_events.cpp -- recording events, and keeping failures.
#include "blocks/stream_events.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace tb::allocator {

PendingQueue &StreamEvents::queue_of(tb_stream *stream) {
  for (auto &queue : queues_)
    if (queue->stream == stream) return *queue;
  auto queue = std::make_unique<PendingQueue>();
  queue->stream = stream;
  // A driver does not report the device of a stream. This is a first guess, which record() corrects.
  queue->device = source_.device() >= 0 ? source_.device() : host.current_device();
  return *queues_.emplace_back(std::move(queue));
}

tb_status StreamEvents::record(PendingQueue &queue, tb_event **out) noexcept {
  tb_event *event = nullptr;
  int32_t device;
  bool settled;
  {
    std::lock_guard guard(store_.lock);
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
  std::lock_guard guard(store_.lock);
  queue.device = device;
  queue.settled = true;
  *out = event;
  return TB_OK;
}

void StreamEvents::recycle(PendingQueue &queue, tb_event *event) noexcept {
  try {
    queue.events.push_back(event);
  } catch (const std::bad_alloc &) {
    driver_.api->event_destroy(driver_.self, event);
  }
}

tb_status StreamEvents::destroy_spare() {
  std::vector<tb_event *> spare;
  {
    std::lock_guard guard(store_.lock);
    for (auto &queue : queues_) {
      spare.insert(spare.end(), queue->events.begin(), queue->events.end());
      queue->events.clear();
    }
  }
  tb_status first = TB_OK;
  for (tb_event *event : spare)
    if (tb_status status = driver_.api->event_destroy(driver_.self, event); first == TB_OK) first = status;
  return first;
}

void StreamEvents::note_failure(tb_status status) noexcept {
  tb_error error{};
  error.struct_size = sizeof error;
  host.take_error(&error);
  if (status == TB_OK || failure_ != TB_OK) return;
  failure_ = status;
  stop_.set(AllocationStop::failure, true);
  snprintf(failure_text_, sizeof failure_text_, "%.255s", error.text);
}

tb_status StreamEvents::report_failure() noexcept {
  tb_status status = std::exchange(failure_, TB_OK);
  stop_.set(AllocationStop::failure, false);
  return status == TB_OK ? TB_OK : fail(status, source_.device(), "deallocate", failure_text_);
}

} // namespace tb::allocator
