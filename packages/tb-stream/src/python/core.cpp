// core.cpp -- the module tb_stream._core.
#include <nanobind/nanobind.h>

#include "python/event_object.h"
#include "python/graph_object.h"
#include "python/stream_object.h"
#include "python/timeline.h"
#include "table.h"
#include "tb/component_python.h"

namespace nb = nanobind;

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false); // with torch, a script's globals are destroyed after the check
  m.doc() = "Streams, events and graphs over tb-device.";
  m.def(
      "_connect",
      [] {
        if (!tb_import("tb-stream", "tb-device", "tb_device._core", TB_DEVICE_API_MAJOR, 0, &tb::host, sizeof tb::host))
          throw nb::python_error();
      },
      "Take tb-device's table. Called once, by the package.");
  tb::stream::bind_stream(m);
  tb::stream::bind_event(m);
  tb::stream::bind_graph(m);
  tb::stream::bind_timeline(m);
  m.attr(TB_EXPORT_ATTRIBUTE) = nb::capsule(&tb::stream::stream_export, TB_EXPORT_CAPSULE);
}
