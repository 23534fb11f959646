// event.cpp -- recording events and waiting for them on a stream.
#include "event.h"

#include <chrono>

#include "capture.h"
#include "device.h"

namespace tb::cpu {

namespace {

struct StampWork {
  static constexpr char name[] = "event_record";
  std::shared_ptr<int64_t> stamp;
  tb_status run(const tb_closure_context *) {
    *stamp = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
                 .count();
    return TB_OK;
  }
};

struct WaitWork {
  static constexpr char name[] = "stream_wait_event";
  Ref<Stream> source;
  uint64_t position;
  tb_status run(const tb_closure_context *context) {
    source->wait_for(position);
    // A failure travels with the order: a synchronise of the waiting stream covers it too.
    if (auto failure = source->failures().peek(position)) Stream::of(context->stream)->inherit(std::move(failure));
    return TB_OK;
  }
};

} // namespace

tb_status Event::record(Stream &stream) {
  Point point{Ref<Stream>(&stream), 0, nullptr, nullptr};
  CapturedPoint captured{stream.capture(), {}};
  if (captured.capture && captured.capture->record(stream, &captured.seen)) {
    point.captured = std::make_shared<const CapturedPoint>(std::move(captured));
  } else if (timing()) {
    auto stamp = std::make_shared<int64_t>(0);
    point.stamp = stamp;
    if (const tb_status status = enqueue(stream, StampWork{std::move(stamp)}, &point.position)) return status;
  } else {
    point.position = stream.ring().tail();
  }
  std::lock_guard lock(mutex_);
  std::swap(point_, point); // the old point is let go after the lock
  return TB_OK;
}

Event::Point Event::point() const {
  std::lock_guard lock(mutex_);
  return point_;
}

tb_status wait_for_point(Stream &stream, Event::Point point) {
  if (point.captured) return point.captured->capture->join(stream, point.captured->seen);
  if (const auto capture = stream.capture(); capture && point.stream && capture->add_prerequisite(point)) return TB_OK;
  if (!point.stream || point.stream.get() == &stream) return TB_OK;
  if (point.done() && !point.stream->failures().maybe()) return TB_OK;
  return enqueue(stream, WaitWork{std::move(point.stream), point.position});
}

} // namespace tb::cpu
