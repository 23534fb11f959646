// An event: a stream and a position in it.
//
// Recording queues nothing, except for events with timing, whose record stamps the clock.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "drivers/cpu/ipc/shared_event.h"
#include "drivers/cpu/stream/stream.h"

namespace tb::drivers::cpu {

struct CapturedPoint;

class Event {
public:
  // What the event stands for at one moment. No stream: never recorded, so complete.
  struct Point {
    Ref<Stream> stream;
    uint64_t position = 0;
    std::shared_ptr<const int64_t> stamp; // steady nanoseconds; valid when the position is done; only with timing
    std::shared_ptr<const CapturedPoint> captured; // recorded on a capturing stream: no position
    bool done() const noexcept { return !stream || stream->queue().done(position); }
  };

  // shared: with TB_EVENT_IPC, and of imported events, which have no point of their own.
  Event(const tb_host *host, uint64_t flags, std::shared_ptr<SharedEvent> shared, bool imported)
      : host_(host), flags_(flags), shared_(std::move(shared)), imported_(imported) {}

  tb_event *handle() noexcept { return reinterpret_cast<tb_event *>(this); }
  static Event *of(tb_event *handle) noexcept { return reinterpret_cast<Event *>(handle); }

  bool imported() const noexcept { return imported_; }
  const std::shared_ptr<SharedEvent> &shared() const noexcept { return shared_; }

  tb_status record(Stream &stream);
  tb_status query() const;
  tb_status synchronize() const;
  // Work queued on `stream` from here on runs after the point.
  tb_status hold_back(Stream &stream) const;
  static tb_status elapsed(const Event &start, const Event &end, int64_t *out);

private:
  bool timing() const noexcept { return flags_ & TB_EVENT_TIMING; }
  tb_status record_shared(Stream &stream, Point *out);
  Point point() const;
  tb_status refuse_captured(const Point &point) const;

  const tb_host *const host_;
  const uint64_t flags_;
  const std::shared_ptr<SharedEvent> shared_;
  const bool imported_;
  mutable std::mutex mutex_;
  Point point_;
};

// As Event::hold_back, for one moment of an event. Fails with a text where a capture forbids it.
tb_status wait_for_point(Stream &stream, Event::Point point);

} // namespace tb::drivers::cpu
