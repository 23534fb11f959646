// The table's functions about events (ASYNC, TIMING).
#include "drivers/sim/driver.h"

namespace tb::drivers::sim::slots {

tb_status event_create(tb_driver *self, int32_t number, uint64_t flags, tb_event **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.usable(number, &status);
    if (!device) return status;
    if ((status = driver.require(out, "out"))) return status;
    if ((status = driver.refuse_flags(flags, TB_EVENT_TIMING | TB_EVENT_BLOCKING | TB_EVENT_IPC))) return status;
    if (flags & TB_EVENT_IPC)
      return fail(driver.host, TB_UNSUPPORTED, "the sim driver shares no events between processes (TB_EVENT_IPC)");
    *out = reinterpret_cast<tb_event *>(driver.add_event(*device, flags));
    return TB_OK;
  });
}

tb_status event_destroy(tb_driver *self, tb_event *handle) {
  return with(self, [&](Driver &driver) { return driver.destroy_event(handle); });
}

tb_status event_record(tb_driver *self, tb_event *handle, tb_stream *stream_handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto event = driver.usable(handle, &status);
    if (!event) return status;
    const auto stream = driver.usable(stream_handle, &status); // a stream of another device is fine
    if (!stream) return status;
    auto stamp = event->flags & TB_EVENT_TIMING ? std::make_shared<int64_t>(0) : nullptr;
    Event::Point point{stream->queue, 0, stamp};
    if ((status = driver.scheduler.enqueue(stream->queue, std::make_shared<RecordOperation>(stream, std::move(stamp)),
                                           &point.position)))
      return status;
    driver.set_point(*event, std::move(point));
    return TB_OK;
  });
}

tb_status stream_wait_event(tb_driver *self, tb_stream *stream_handle, tb_event *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.usable(stream_handle, &status);
    if (!stream) return status;
    const auto event = driver.usable(handle, &status);
    if (!event) return status;
    const Event::Point point = driver.point_of(*event);
    if (!point.queue || point.queue == stream->queue) return TB_OK;
    return driver.enqueue<WaitOperation>(stream, point);
  });
}

tb_status event_query(tb_driver *self, tb_event *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto event = driver.usable(handle, &status);
    if (!event) return status;
    const Event::Point point = driver.point_of(*event);
    return point.queue ? driver.query({point.queue, point.position}) : TB_OK;
  });
}

tb_status event_synchronize(tb_driver *self, tb_event *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto event = driver.usable(handle, &status);
    if (!event) return status;
    const Event::Point point = driver.point_of(*event);
    if (!point.queue) return TB_OK;
    return driver.synchronize({{point.queue, point.position}}, point.queue->device, false);
  });
}

tb_status event_elapsed_ns(tb_driver *self, tb_event *start_handle, tb_event *end_handle, int64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto start = driver.usable(start_handle, &status);
    if (!start) return status;
    const auto end = driver.usable(end_handle, &status);
    if (!end) return status;
    if ((status = driver.require(out, "out"))) return status;
    for (const auto &[event, name] : {std::pair(start, "start"), std::pair(end, "end")})
      if (!(event->flags & TB_EVENT_TIMING))
        return fail(driver.host, TB_FAILED_PRECONDITION,
                    "the %s event was made without TB_EVENT_TIMING (enable_timing=True in Python)", name);
    const Event::Point from = driver.point_of(*start), to = driver.point_of(*end);
    if (!from.stamp || !to.stamp)
      return fail(driver.host, TB_FAILED_PRECONDITION, "the %s event was never recorded", from.stamp ? "end" : "start");
    if (!driver.scheduler.reached({from.queue, from.position}) || !driver.scheduler.reached({to.queue, to.position}))
      return TB_NOT_READY;
    *out = *to.stamp - *from.stamp;
    return TB_OK;
  });
}

} // namespace tb::drivers::sim::slots
