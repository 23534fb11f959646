// Imports the other components' tables; calls of streams and events.
#include <nanobind/nanobind.h>

#include "device/components.h"

#include "tb/component_python.h"

namespace tb::compile {

Components components;

void connect_components() {
  static bool done = false; // the GIL guards it
  if (done) return;
  constexpr const char *me = "tb-compile";
  if (!tb_import(me, "tb-device", "tb_device._core", TB_DEVICE_API_MAJOR, 2, &components.device,
                 sizeof components.device) ||
      !tb_import(me, "tb-stream", "tb_stream._core", TB_STREAM_API_MAJOR, 3, &components.stream,
                 sizeof components.stream) ||
      !tb_import(me, "tb-allocator", "tb_allocator._core", TB_ALLOCATOR_API_MAJOR, 3, &components.allocator,
                 sizeof components.allocator) ||
      !tb_import(me, "tb-ops", "tb_ops._core", TB_OPS_API_MAJOR, 2, &components.ops, sizeof components.ops))
    throw nanobind::python_error();
  done = true;
}

Driver open_driver() {
  Driver driver;
  check(components.device.driver(&driver.api, &driver.self), "driver", -1);
  return driver;
}

void wait_stream(int32_t device, tb_stream *stream, tb_stream *earlier) {
  const Driver driver = open_driver();
  tb_event *event = nullptr;
  check(components.stream.event_acquire(device, 0, &event), "event_acquire", device);
  tb_status status = driver.api->event_record(driver.self, event, earlier);
  if (status == TB_OK) status = driver.api->stream_wait_event(driver.self, stream, event);
  components.stream.event_release(event);
  check(status, "stream_wait_event", device);
}

bool is_capturing(int32_t device) {
  if (!__atomic_load_n(components.stream.capturing, __ATOMIC_RELAXED)) return false;
  void *capture = nullptr;
  check(components.stream.capture_part(components.stream.current(device), nullptr, &capture), "capture_part", device);
  return capture != nullptr;
}

} // namespace tb::compile
