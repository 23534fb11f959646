// Records events and makes streams wait for them.
#include "drivers/cpu/stream/event.h"

#include <chrono>
#include <cstdio>

#include "drivers/common/error_text.h"
#include "drivers/common/host_wait.h"
#include "drivers/cpu/device/device.h"
#include "drivers/cpu/stream/capture.h"

namespace tb::drivers::cpu {

namespace {

struct StampWork {
  static constexpr char name[] = "event_record";
  static constexpr uint32_t flags = TB_CLOSURE_ON_WAITER | TB_CLOSURE_AFTER_FAILURE;
  std::shared_ptr<int64_t> stamp;
  tb_status run(const tb_closure_context *) {
    *stamp = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
                 .count();
    return TB_OK;
  }
};

struct WaitWork {
  static constexpr char name[] = "stream_wait_event";
  static constexpr uint32_t flags = TB_CLOSURE_AFTER_FAILURE;
  Ref<Stream> source;
  uint64_t position;
  tb_status run(const tb_closure_context *context) {
    source->wait_for(position);
    // A failure travels with the order: a synchronise of the waiting stream covers it too.
    Stream::of(context->stream)->inherit(*source, position);
    return TB_OK;
  }
};

// Lets the other processes know that the record's point has passed.
struct CompleteWork {
  static constexpr char name[] = "event_record";
  static constexpr uint32_t flags = TB_CLOSURE_ON_WAITER | TB_CLOSURE_AFTER_FAILURE;
  std::shared_ptr<SharedEvent> event;
  uint64_t number;
  tb_status run(const tb_closure_context *) {
    event->complete(number);
    return TB_OK;
  }
};

struct WaitSharedWork {
  static constexpr char name[] = "stream_wait_event";
  static constexpr uint32_t flags = TB_CLOSURE_AFTER_FAILURE;
  std::shared_ptr<SharedEvent> event;
  uint64_t number;
  tb_status run(const tb_closure_context *context) {
    const tb_status status = event->ask(number, true);
    if (status) std::snprintf(context->error_text, context->error_capacity, "%s", SharedEvent::lost);
    return status;
  }
};

} // namespace

tb_status Event::record(Stream &stream) {
  if (imported_)
    return fail(host_, TB_FAILED_PRECONDITION, "the event was imported: only the process that made it records it");
  Point point{Ref<Stream>(&stream), 0, nullptr, nullptr};
  if (const auto capture = stream.capture()) {
    if (shared_) return fail(host_, TB_UNSUPPORTED, "an event made with TB_EVENT_IPC cannot be recorded in a capture");
    CapturedPoint captured{capture, {}};
    if (capture->record(stream, &captured.seen)) point.captured = std::make_shared<CapturedPoint>(std::move(captured));
  }
  if (timing() && !point.captured) {
    auto stamp = std::make_shared<int64_t>(0);
    point.stamp = stamp;
    if (const tb_status status = enqueue(stream, StampWork{std::move(stamp)}, &point.position)) return status;
  } else {
    point.position = stream.queue().tail();
  }
  if (shared_)
    if (const tb_status status = record_shared(stream, &point)) return status;
  std::lock_guard lock(mutex_);
  std::swap(point_, point); // the old point is released after the lock
  return TB_OK;
}

tb_status Event::record_shared(Stream &stream, Point *out) {
  std::unique_lock lock(shared_->record_mutex(), std::try_to_lock);
  if (!lock) { // its owner may be waiting for room
    const HostWait waiting(host_);
    lock.lock();
  }
  uint64_t number = 0;
  if (const tb_status status = shared_->next_number(&number)) return status;
  if (const tb_status status = enqueue(stream, CompleteWork{shared_, number}, &out->position)) return status;
  shared_->publish_record(number);
  return TB_OK;
}

Event::Point Event::point() const {
  std::lock_guard lock(mutex_);
  return point_;
}

tb_status Event::refuse_captured(const Point &point) const {
  if (!point.captured) return TB_OK;
  return fail(host_, TB_FAILED_PRECONDITION,
              "the event was recorded in a capture, so it stands for no moment: record it on the stream of the launch");
}

tb_status Event::query() const {
  if (imported_) {
    const tb_status status = shared_->ask(shared_->last_record(), false);
    return status == TB_DATA_LOSS ? fail(host_, status, "%s", SharedEvent::lost) : status;
  }
  const Point point = this->point();
  if (const tb_status status = refuse_captured(point)) return status;
  return point.stream ? point.stream->query(point.position) : TB_OK;
}

tb_status Event::synchronize() const {
  if (imported_) {
    const tb_status status = shared_->ask(shared_->last_record(), true);
    return status ? fail(host_, status, "%s", SharedEvent::lost) : status;
  }
  const Point point = this->point();
  if (const tb_status status = refuse_captured(point)) return status;
  if (!point.stream) return TB_OK;
  const bool sleeps = flags_ & TB_EVENT_BLOCKING;
  return point.stream->synchronize(point.position, sleeps ? 0 : point.stream->device().spin());
}

tb_status Event::hold_back(Stream &stream) const {
  if (!imported_) return wait_for_point(stream, point());
  if (stream.capturing())
    return fail(host_, TB_UNSUPPORTED, "a stream that captures cannot wait for an event of another process");
  const uint64_t number = shared_->last_record();
  return shared_->done(number) ? TB_OK : enqueue(stream, WaitSharedWork{shared_, number});
}

tb_status Event::elapsed(const Event &start, const Event &end, int64_t *out) {
  const tb_host *host = start.host_;
  if (!start.timing() || !end.timing())
    return fail(host, TB_FAILED_PRECONDITION,
                "the %s event was made without TB_EVENT_TIMING (enable_timing=True in Python)",
                start.timing() ? "end" : "start");
  const Point from = start.point(), to = end.point();
  if (const tb_status status = start.refuse_captured(from)) return status;
  if (const tb_status status = end.refuse_captured(to)) return status;
  if (!from.stamp || !to.stamp)
    return fail(host, TB_FAILED_PRECONDITION, "the %s event was never recorded", from.stamp ? "end" : "start");
  if (!from.done() || !to.done()) return TB_NOT_READY;
  *out = *to.stamp - *from.stamp;
  return TB_OK;
}

tb_status wait_for_point(Stream &stream, Event::Point point) {
  if (point.captured) return point.captured->capture->join(stream, point.captured->seen);
  if (const auto capture = stream.capture(); capture && point.stream && capture->add_prerequisite(point)) return TB_OK;
  if (!point.stream || point.stream.get() == &stream) return TB_OK;
  if (point.done() && !point.stream->failures().maybe()) return TB_OK;
  return enqueue(stream, WaitWork{std::move(point.stream), point.position});
}

} // namespace tb::drivers::cpu
