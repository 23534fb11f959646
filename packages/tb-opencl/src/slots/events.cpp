// Events are markers.
#include "driver/driver.h"
#include "opencl/failure.h"
#include "slots/streams.h"

namespace tb::opencl {
namespace {

constexpr uint64_t known_flags = TB_EVENT_TIMING | TB_EVENT_BLOCKING;

struct Sleeper {
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;
};

void wake(cl_event, cl_int, void *given) {
  auto *sleeper = static_cast<Sleeper *>(given);
  const std::lock_guard lock(sleeper->mutex); // the sleeper is gone once the mutex is free
  sleeper->done = true;
  sleeper->wake.notify_one();
}

// clWaitForEvents may use up a processor while it waits, as Intel's implementation does.
void sleep_until_done(const Functions &cl, const Event &event) {
  Sleeper sleeper;
  if (!event || cl.clSetEventCallback(event.get(), CL_COMPLETE, wake, &sleeper) != CL_SUCCESS) return;
  std::unique_lock lock(sleeper.mutex);
  sleeper.wake.wait(lock, [&] { return sleeper.done; });
}

// Fails for an event that was recorded in a capture.
tb_status check_moment(tb_driver *self, tb_event *event) {
  if (!event->in_capture().capture) return TB_OK;
  return fail(self->host, TB_FAILED_PRECONDITION, 0,
              "the event was recorded in a capture, so it stands for no moment: record it on the stream of the launch");
}

// When the event's point was passed, in nanoseconds of the device.
tb_status time_of(tb_driver *self, tb_event *event, const char *name, uint64_t *out) {
  if (const tb_status status = check_moment(self, event)) return status;
  const Point point = event->current();
  if (!(event->flags & TB_EVENT_TIMING) || !point.event)
    return fail(self->host, TB_FAILED_PRECONDITION, 0,
                "the %s event was made without TB_EVENT_TIMING or never recorded", name);
  const cl_int state = point.event.state();
  if (state < 0) return fail_call(self->host, state, "work before an event");
  if (state != CL_COMPLETE) return TB_NOT_READY;
  const cl_int code =
      self->cl.clGetEventProfilingInfo(point.event.get(), CL_PROFILING_COMMAND_END, sizeof *out, out, nullptr);
  return code == CL_SUCCESS ? TB_OK : self->failed(code, "clGetEventProfilingInfo");
}

} // namespace

tb_status event_create(tb_driver *self, int32_t device, uint64_t flags, tb_event **out) {
  if (const tb_status status = self->check_device(device)) return status;
  if (const tb_status status = self->check_flags(flags, known_flags)) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  auto made = std::make_unique<tb_event>();
  made->driver = self, made->device = device, made->flags = flags;
  *out = made.release();
  ++self->objects;
  return TB_OK;
}

tb_status event_destroy(tb_driver *self, tb_event *event) {
  if (const tb_status status = self->check(event, "event")) return status;
  delete event;
  --self->objects;
  return TB_OK;
}

tb_status event_record(tb_driver *self, tb_event *event, tb_stream *stream) {
  if (const tb_status status = self->check(event, "event")) return status;
  if (const tb_status status = self->check(stream, "stream")) return status;
  Point point;
  CapturedPoint captured = self->captures.point(stream);
  if (!captured.capture) {
    const std::lock_guard lock(stream->mutex);
    cl_event marker = nullptr;
    const cl_int code = self->cl.clEnqueueMarkerWithWaitList(stream->queue, 0, nullptr, &marker);
    if (code != CL_SUCCESS) return self->failed(code, "clEnqueueMarkerWithWaitList");
    stream->note(self->cl, marker);
    point = stream->point();
  }
  if (!captured.capture) self->cl.clFlush(stream->queue); // others may wait for the event
  const std::lock_guard lock(event->mutex);
  std::swap(event->point, point);
  std::swap(event->captured, captured);
  return TB_OK;
}

tb_status event_query(tb_driver *self, tb_event *event) {
  if (const tb_status status = self->check(event, "event")) return status;
  if (const tb_status status = check_moment(self, event)) return status;
  return settle(self->host, self->cl, event->current(), false);
}

tb_status event_synchronize(tb_driver *self, tb_event *event) {
  if (const tb_status status = self->check(event, "event")) return status;
  if (const tb_status status = check_moment(self, event)) return status;
  const Point point = event->current();
  if (event->flags & TB_EVENT_BLOCKING) sleep_until_done(self->cl, point.event);
  return settle(self->host, self->cl, point, true);
}

tb_status event_elapsed_ns(tb_driver *self, tb_event *start, tb_event *end, int64_t *out) {
  if (const tb_status status = self->check(start, "start")) return status;
  if (const tb_status status = self->check(end, "end")) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  uint64_t from = 0, to = 0;
  if (const tb_status status = time_of(self, start, "first", &from)) return status;
  if (const tb_status status = time_of(self, end, "second", &to)) return status;
  *out = static_cast<int64_t>(to - from);
  return TB_OK;
}

} // namespace tb::opencl
