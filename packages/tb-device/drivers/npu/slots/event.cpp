// The table's functions about events (ASYNC, TIMING).
#include <utility>

#include "drivers/npu/driver.h"

namespace tb::drivers::npu {
namespace {

Event &event_of(Driver &driver, tb_event *handle, const char *name = "event") {
  driver.need(handle, name);
  return *Event::of(handle);
}

// With the device bound.
bool passed(Driver &driver, const NativeEvent &point) {
  int32_t status = acl::event_not_ready;
  driver.call(driver.library.aclrtQueryEventStatus, point.native, &status);
  return status == acl::event_complete;
}

} // namespace

namespace slots {

tb_status event_create(tb_driver *self, int32_t device, uint64_t flags, tb_event **out) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(out, "out");
    driver.refuse_flags(flags, TB_EVENT_TIMING | TB_EVENT_BLOCKING | TB_EVENT_IPC);
    if (flags & TB_EVENT_IPC) refuse(TB_UNSUPPORTED, "the NPU driver shares no events between processes");
    auto event = std::make_unique<Event>();
    event->device = device;
    event->flags = flags;
    *out = event.release()->handle();
    ++driver.event_count;
  });
}

tb_status event_destroy(tb_driver *self, tb_event *handle) {
  return with(self, [&](Driver &driver) {
    delete &event_of(driver, handle);
    --driver.event_count;
  });
}

// An event of the old kind takes one record only: each gets its own.
tb_status event_record(tb_driver *self, tb_event *handle, tb_stream *stream_handle) {
  return with(self, [&](Driver &driver) {
    Event &event = event_of(driver, handle);
    driver.need(stream_handle, "stream");
    const Stream &stream = *Stream::of(stream_handle);
    if (stream.device != event.device)
      refuse(TB_INVALID_ARGUMENT, "the event belongs to device %d, the stream to device %d", event.device,
             stream.device);
    const Bound bound = driver.bind(event.device);
    std::shared_ptr<NativeEvent> replaced; // goes after the lock
    std::lock_guard lock(event.mutex);
    std::shared_ptr<NativeEvent> point = event.native;
    if (!point || !driver.library.aclrtCreateEventExWithFlag)
      point = std::make_shared<NativeEvent>(*driver.runtime, event.device, event.flags & TB_EVENT_TIMING, driver.host);
    driver.call(driver.library.aclrtRecordEvent, point->native, stream.native);
    replaced = std::exchange(event.native, std::move(point));
  });
}

tb_status event_query(tb_driver *self, tb_event *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    Event &event = event_of(driver, handle);
    const auto point = event.point();
    if (!point) return TB_OK;
    const Bound bound = driver.bind(event.device);
    return passed(driver, *point) ? TB_OK : TB_NOT_READY;
  });
}

tb_status event_synchronize(tb_driver *self, tb_event *handle) {
  return with(self, [&](Driver &driver) {
    Event &event = event_of(driver, handle);
    const auto point = event.point();
    if (!point) return;
    const Bound bound = driver.bind(event.device);
    driver.call(driver.library.aclrtSynchronizeEvent, point->native);
  });
}

tb_status event_elapsed_ns(tb_driver *self, tb_event *start_handle, tb_event *end_handle, int64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    Event &start = event_of(driver, start_handle, "start"), &end = event_of(driver, end_handle, "end");
    driver.need(out, "out");
    const auto from = start.point(), to = end.point();
    if (!(start.flags & end.flags & TB_EVENT_TIMING))
      refuse(TB_FAILED_PRECONDITION, "an event was made without TB_EVENT_TIMING (enable_timing=True in Python)");
    if (!from || !to) refuse(TB_FAILED_PRECONDITION, "an event was never recorded");
    if (start.device != end.device)
      refuse(TB_INVALID_ARGUMENT, "the events belong to devices %d and %d, whose clocks differ", start.device,
             end.device);
    const Bound bound = driver.bind(start.device);
    if (!passed(driver, *from) || !passed(driver, *to)) return TB_NOT_READY;
    float milliseconds = 0;
    const Library &library = driver.library;
    acl::Error error = library.aclrtEventElapsedTime(&milliseconds, from->native, to->native);
    if (error == acl::timestamp_reversed) { // reported as an error: ask in the other order
      error = library.aclrtEventElapsedTime(&milliseconds, to->native, from->native);
      milliseconds = -milliseconds;
    }
    driver.runtime->check(library.aclrtEventElapsedTime.name, error);
    *out = static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
    return TB_OK;
  });
}

} // namespace slots
} // namespace tb::drivers::npu
