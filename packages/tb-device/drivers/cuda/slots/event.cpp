// The table's functions about events (ASYNC, TIMING).
#include <cmath>

#include "drivers/cuda/driver.h"

namespace tb::drivers::cuda::slots {

tb_status event_create(tb_driver *self, int32_t number, uint64_t flags, tb_event **out) {
  const uint64_t known = TB_EVENT_TIMING | TB_EVENT_BLOCKING | TB_EVENT_IPC;
  return with_device(self, number, {{{out, "out"}}, flags, known}, [&](Driver &driver, Device &device) -> tb_status {
    if ((flags & TB_EVENT_TIMING) && (flags & TB_EVENT_IPC))
      return fail(driver.host, TB_INVALID_ARGUMENT,
                  "CUDA has no times of events that processes share: make two events");
    const unsigned native_flags = (flags & TB_EVENT_TIMING ? 0u : unsigned(CU_EVENT_DISABLE_TIMING)) |
                                  (flags & TB_EVENT_BLOCKING ? unsigned(CU_EVENT_BLOCKING_SYNC) : 0u) |
                                  (flags & TB_EVENT_IPC ? unsigned(CU_EVENT_INTERPROCESS) : 0u);
    CUevent native = nullptr;
    const CUresult result = driver.api.cuEventCreate(&native, native_flags);
    if (const tb_status status = driver.report(device, result, "cuEventCreate")) return status;
    *out = (new Event{{device, native, device.generation}, flags})->handle();
    driver.live.events.fetch_add(1);
    return TB_OK;
  });
}

tb_status event_destroy(tb_driver *self, tb_event *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = driver.require(handle, "event");
    if (status) return status;
    Event *event = Event::of(handle);
    Device &device = event->device;
    if (event->generation == device.generation) {
      const Current current(driver, device);
      status = current.status ? current.refusal()
                              : driver.report(device, driver.api.cuEventDestroy(event->native), "cuEventDestroy");
      if (tb_is_refusal(status)) return status;
    }
    driver.live.events.fetch_sub(1);
    delete event;
    return status;
  });
}

tb_status event_record(tb_driver *self, tb_event *handle, tb_stream *stream_handle) {
  return with_object<Event>(self, handle, "event", {}, [&](Driver &driver, Event &event) -> tb_status {
    tb_status status = TB_OK;
    Stream *stream = driver.usable_object<Stream>(stream_handle, "stream", &status);
    if (!stream) return status;
    if (&event.device != &stream->device)
      return fail(driver.host, TB_INVALID_ARGUMENT,
                  "the event is device %d's, the stream device %d's: CUDA records an "
                  "event on streams of its own device",
                  event.device.number, stream->device.number);
    return driver.report(event.device, driver.api.cuEventRecord(event.native, stream->native), "cuEventRecord");
  });
}

tb_status event_query(tb_driver *self, tb_event *handle) {
  return with_object<Event>(self, handle, "event", {}, [&](Driver &driver, Event &event) -> tb_status {
    return driver.report(event.device, driver.api.cuEventQuery(event.native), "cuEventQuery");
  });
}

tb_status event_synchronize(tb_driver *self, tb_event *handle) {
  return with_object<Event>(self, handle, "event", {}, [&](Driver &driver, Event &event) -> tb_status {
    return driver.report(event.device, driver.api.cuEventSynchronize(event.native), "cuEventSynchronize");
  });
}

tb_status event_elapsed_ns(tb_driver *self, tb_event *start_handle, tb_event *end_handle, int64_t *out) {
  return with_object<Event>(self, start_handle, "start", {}, [&](Driver &driver, Event &start) -> tb_status {
    tb_status status = TB_OK;
    Event *end = driver.usable_object<Event>(end_handle, "end", &status);
    if (!end || (status = driver.require(out, "out"))) return status;
    if (!(start.flags & end->flags & TB_EVENT_TIMING))
      return fail(driver.host, TB_FAILED_PRECONDITION,
                  "an event was made without TB_EVENT_TIMING (enable_timing=True in Python): it has no time");
    float milliseconds = 0;
    const CUresult result = driver.api.cuEventElapsedTime(&milliseconds, start.native, end->native);
    if (result == CUDA_ERROR_INVALID_HANDLE)
      return fail_cuda(driver.host, driver.api, TB_FAILED_PRECONDITION, result, "cuEventElapsedTime",
                       "Record both events first, on streams of one device");
    if ((status = driver.report(start.device, result, "cuEventElapsedTime"))) return status;
    *out = std::llround(double(milliseconds) * 1e6);
    return TB_OK;
  });
}

} // namespace tb::drivers::cuda::slots
