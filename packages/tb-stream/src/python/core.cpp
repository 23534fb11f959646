// core.cpp -- the module tb_stream._core.
#include <nanobind/nanobind.h>

#include "graph_object.h"
#include "stream_object.h"
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
  tb::bind_stream(m);
  tb::bind_event(m);
  tb::bind_graph(m);
  m.attr(TB_EXPORT_ATTRIBUTE) = nb::capsule(&tb::stream_export, TB_EXPORT_CAPSULE);
}
