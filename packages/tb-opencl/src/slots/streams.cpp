// Streams: queues, waits, native handles.
#include <sched.h>
#include <time.h>

#include "driver/driver.h"
#include "opencl/failure.h"
#include "slots/streams.h"

namespace tb::opencl {
namespace {

void sleep_briefly() {
  constexpr timespec time{0, 20'000};
  nanosleep(&time, nullptr);
}

// The stream's point now. Where others have the queue too, that is a marker behind whatever they queued.
tb_status current_point(tb_driver *self, tb_stream *stream, Point *out) {
  const std::lock_guard lock(stream->mutex);
  if (stream->shared_queue) {
    cl_event marker = nullptr;
    const cl_int code = self->cl.clEnqueueMarkerWithWaitList(stream->queue, 0, nullptr, &marker);
    if (code != CL_SUCCESS) return self->failed(code, "clEnqueueMarkerWithWaitList");
    stream->note(self->cl, marker);
  }
  *out = stream->point();
  return TB_OK;
}

} // namespace

tb_status stream_default(tb_driver *self, int32_t device, tb_stream **out) {
  if (const tb_status status = self->check_device(device)) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  *out = self->defaults[static_cast<size_t>(device)].get();
  return TB_OK;
}

tb_status stream_create(tb_driver *self, int32_t device, int32_t priority, uint64_t flags, tb_stream **out) {
  if (const tb_status status = self->check_device(device)) return status;
  if (const tb_status status = self->check_flags(flags, 0)) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  auto made = std::make_unique<tb_stream>();
  if (const tb_status status = self->start_stream(made.get(), device, priority, nullptr)) return status;
  *out = made.release();
  return TB_OK;
}

tb_status stream_destroy(tb_driver *self, tb_stream *stream) {
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (stream->borrowed) return fail(self->host, TB_INVALID_ARGUMENT, 0, "a default stream cannot be destroyed");
  self->end_stream(stream);
  delete stream;
  return TB_OK;
}

tb_status stream_query(tb_driver *self, tb_stream *stream) {
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (const tb_status status = self->captures.check_wait(stream)) return status;
  Point point;
  if (const tb_status status = current_point(self, stream, &point)) return status;
  self->cl.clFlush(stream->queue);
  // OpenCL cannot say whether a queue is idle. A marker that was just queued gets a moment to complete, so that an idle
  // stream does not look busy.
  for (int i = 0; stream->shared_queue && point.event.state() > CL_COMPLETE && i < 500; ++i)
    i < 100 ? void(sched_yield()) : sleep_briefly();
  return settle(self->host, self->cl, point, false);
}

tb_status stream_synchronize(tb_driver *self, tb_stream *stream) {
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (const tb_status status = self->captures.check_wait(stream)) return status;
  Point point;
  if (const tb_status status = current_point(self, stream, &point)) return status;
  self->cl.clFlush(stream->queue);
  return settle(self->host, self->cl, point, true);
}

tb_status device_synchronize(tb_driver *self, int32_t device) {
  if (const tb_status status = self->check_device(device)) return status;
  std::vector<Point> points;
  {
    const std::lock_guard lock(self->mutex);
    for (tb_stream *stream : self->streams) {
      if (stream->device != device) continue;
      if (const tb_status status = self->captures.check_wait(stream)) return status;
      points.emplace_back();
      if (const tb_status status = current_point(self, stream, &points.back())) return status;
      self->cl.clFlush(stream->queue);
    }
    for (const tb_driver::Ended &one : self->ended)
      if (one.device == device) points.push_back(one.point);
  }
  tb_status first = TB_OK;
  for (const Point &point : points) // all are waited for, and the first failure is the one that counts
    if (const tb_status status = settle(self->host, self->cl, point, true); first == TB_OK) first = status;
  return first;
}

tb_status stream_wait_event(tb_driver *self, tb_stream *stream, tb_event *event) {
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (const tb_status status = self->check(event, "event")) return status;
  if (const CapturedPoint captured = event->in_capture(); captured.capture)
    return self->captures.join(stream, captured);
  const Point point = event->current();
  if (!point.event || self->captures.add_prerequisite(stream, point)) return TB_OK;
  const std::lock_guard lock(stream->mutex);
  cl_event barrier = nullptr;
  const cl_int code = self->cl.clEnqueueBarrierWithWaitList(stream->queue, 1, point.event.address(), &barrier);
  if (code != CL_SUCCESS) return self->failed(code, "clEnqueueBarrierWithWaitList");
  stream->note(self->cl, barrier);
  stream->inherit(point);
  return TB_OK;
}

tb_status stream_native(tb_driver *self, tb_stream *stream, uint64_t *out) {
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  const std::lock_guard lock(stream->mutex);
  stream->shared_queue = true;
  *out = reinterpret_cast<uintptr_t>(stream->queue);
  return TB_OK;
}

tb_status stream_wrap(tb_driver *self, int32_t device, uint64_t native, tb_stream **out) {
  if (const tb_status status = self->check_device(device)) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  const auto queue = reinterpret_cast<cl_command_queue>(static_cast<uintptr_t>(native));
  const auto info = [&](cl_uint what, auto *value) {
    return self->cl.clGetCommandQueueInfo(queue, what, sizeof *value, value, nullptr) == CL_SUCCESS;
  };
  cl_context context = nullptr;
  cl_device_id id = nullptr;
  if (!queue || !info(CL_QUEUE_CONTEXT, &context) || !info(CL_QUEUE_DEVICE, &id) || context != self->context ||
      id != self->devices[static_cast<size_t>(device)].id)
    return fail(self->host, TB_INVALID_ARGUMENT, 0, "%#llx is no command queue of device %d in this driver's context",
                static_cast<unsigned long long>(native), device);
  auto made = std::make_unique<tb_stream>();
  made->shared_queue = true;
  if (const tb_status status = self->start_stream(made.get(), device, 0, queue)) return status;
  *out = made.release();
  return TB_OK;
}

tb_status stream_host_call(tb_driver *self, tb_stream *stream, void (*function)(void *, tb_status), void *user) {
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (!function) return fail(self->host, TB_INVALID_ARGUMENT, 0, "function is NULL");
  if (stream->captures)
    return fail(self->host, TB_UNSUPPORTED, 0,
                "OpenCL captures no call of a function of the host: queue it before or behind the graph's launch");
  const Functions &cl = self->cl;
  const std::lock_guard lock(stream->mutex);
  if (!stream->host_calls) stream->host_calls = std::make_unique<HostCalls>(cl);
  cl_int code = CL_SUCCESS;
  cl_event before = nullptr, barrier = nullptr;
  const Event after(cl, cl.clCreateUserEvent(self->context, &code));
  if (code != CL_SUCCESS) return self->failed(code, "clCreateUserEvent");
  code = cl.clEnqueueMarkerWithWaitList(stream->queue, 0, nullptr, &before);
  if (code != CL_SUCCESS) return self->failed(code, "clEnqueueMarkerWithWaitList");
  Event passed(cl, before);
  code = cl.clEnqueueBarrierWithWaitList(stream->queue, 1, after.address(), &barrier);
  if (code != CL_SUCCESS) return self->failed(code, "clEnqueueBarrierWithWaitList");
  const Covers covers = stream->point().covers;
  stream->note(self->cl, barrier);
  cl.clFlush(stream->queue);
  stream->host_calls->add({std::move(passed), after, covers, function, user});
  return TB_OK;
}

} // namespace tb::opencl
