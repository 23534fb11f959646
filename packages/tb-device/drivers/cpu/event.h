// event.h -- an event: a stream and a position in it.
//
// Recording queues nothing, except for events with timing, whose record stamps the clock.
#ifndef TB_CPU_EVENT_H
#define TB_CPU_EVENT_H

#include <cstdint>
#include <memory>
#include <mutex>

#include "stream.h"

namespace tb::cpu {

struct CapturedPoint;

class Event {
public:
  // What the event stands for at one moment. No stream: never recorded, so complete.
  struct Point {
    Ref<Stream> stream;
    uint64_t position = 0;
    std::shared_ptr<const int64_t> stamp; // steady nanoseconds; valid when the position is done; only with timing
    std::shared_ptr<const CapturedPoint> captured; // recorded on a capturing stream: no position
    bool done() const noexcept { return !stream || stream->ring().done(position); }
  };

  explicit Event(uint64_t flags) : flags_(flags) {}

  tb_event *handle() noexcept { return reinterpret_cast<tb_event *>(this); }
  static Event *of(tb_event *handle) noexcept { return reinterpret_cast<Event *>(handle); }

  bool timing() const noexcept { return flags_ & TB_EVENT_TIMING; }
  bool blocking() const noexcept { return flags_ & TB_EVENT_BLOCKING; }
  tb_status record(Stream &stream);
  Point point() const;

private:
  const uint64_t flags_;
  mutable std::mutex mutex_;
  Point point_;
};

// Work queued on `stream` from here on runs after the point. Fails with a text where a capture forbids it.
tb_status wait_for_point(Stream &stream, Event::Point point);

} // namespace tb::cpu
#endif
