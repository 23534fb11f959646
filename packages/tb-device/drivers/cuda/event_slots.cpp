// event_slots.cpp -- the table's functions about events (ASYNC, TIMING).
#include <cmath>

#include "driver.h"

namespace tb::cuda::slots {

tb_status event_create(tb_driver *self, int32_t number, uint64_t flags, tb_event **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.usable(number, &status);
    if (!device) return status;
    if ((status = driver.require(out, "out"))) return status;
    if ((status = driver.refuse_flags(flags, TB_EVENT_TIMING | TB_EVENT_BLOCKING | TB_EVENT_IPC))) return status;
    if ((flags & TB_EVENT_TIMING) && (flags & TB_EVENT_IPC))
      return fail(driver.host, TB_INVALID_ARGUMENT,
                  "CUDA has no times of events that processes share: make two events");
    const Current current(driver, *device);
    if (current.status) return current.status;
    const unsigned native_flags = (flags & TB_EVENT_TIMING ? 0u : unsigned(CU_EVENT_DISABLE_TIMING)) |
                                  (flags & TB_EVENT_BLOCKING ? unsigned(CU_EVENT_BLOCKING_SYNC) : 0u) |
                                  (flags & TB_EVENT_IPC ? unsigned(CU_EVENT_INTERPROCESS) : 0u);
    CUevent native = nullptr;
    if ((status = driver.told(*device, driver.api.cuEventCreate(&native, native_flags), "cuEventCreate")))
      return status;
    *out = (new Event{{*device, native, device->generation}, flags})->handle();
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
                              : driver.told(device, driver.api.cuEventDestroy(event->native), "cuEventDestroy");
      if (tb_is_refusal(status)) return status;
    }
    driver.live.events.fetch_sub(1);
    delete event;
    return status;
  });
}

tb_status event_record(tb_driver *self, tb_event *handle, tb_stream *stream_handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Event *event = driver.usable_object<Event>(handle, "event", &status);
    Stream *stream = event ? driver.usable_object<Stream>(stream_handle, "stream", &status) : nullptr;
    if (!stream) return status;
    if (&event->device != &stream->device)
      return fail(driver.host, TB_INVALID_ARGUMENT,
                  "the event is device %d's, the stream device %d's: CUDA records an "
                  "event on streams of its own device",
                  event->device.number, stream->device.number);
    const Current current(driver, stream->device);
    if (current.status) return current.status;
    return driver.told(stream->device, driver.api.cuEventRecord(event->native, stream->native), "cuEventRecord");
  });
}

tb_status event_query(tb_driver *self, tb_event *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Event *event = driver.usable_object<Event>(handle, "event", &status);
    if (!event) return status;
    const Current current(driver, event->device);
    if (current.status) return current.status;
    return driver.told(event->device, driver.api.cuEventQuery(event->native), "cuEventQuery");
  });
}

tb_status event_synchronize(tb_driver *self, tb_event *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Event *event = driver.usable_object<Event>(handle, "event", &status);
    if (!event) return status;
    const Current current(driver, event->device);
    if (current.status) return current.status;
    return driver.told(event->device, driver.api.cuEventSynchronize(event->native), "cuEventSynchronize");
  });
}

tb_status event_elapsed_ns(tb_driver *self, tb_event *start_handle, tb_event *end_handle, int64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Event *start = driver.usable_object<Event>(start_handle, "start", &status);
    Event *end = start ? driver.usable_object<Event>(end_handle, "end", &status) : nullptr;
    if (!end) return status;
    if ((status = driver.require(out, "out"))) return status;
    if (!(start->flags & end->flags & TB_EVENT_TIMING))
      return fail(driver.host, TB_FAILED_PRECONDITION, "an event was made without TB_EVENT_TIMING: it has no time");
    const Current current(driver, start->device);
    if (current.status) return current.status;
    float milliseconds = 0;
    const CUresult result = driver.api.cuEventElapsedTime(&milliseconds, start->native, end->native);
    if (result == CUDA_ERROR_INVALID_HANDLE)
      return fail_cuda(driver.host, driver.api, TB_FAILED_PRECONDITION, result, "cuEventElapsedTime",
                       "Record both events first, on streams of one device");
    if ((status = driver.told(start->device, result, "cuEventElapsedTime"))) return status;
    *out = std::llround(double(milliseconds) * 1e6);
    return TB_OK;
  });
}

} // namespace tb::cuda::slots
