// module.cpp -- the extension torch_backend._distributed: its settings, and how Python makes a backend.
//
// Process groups are objects of pybind11, which this extension does not speak. It receives them through operators, as objects
// of c10d's own class.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include "backend.h"

namespace nb = nanobind;

namespace tb::distributed {
namespace {

void import_tables() {
  if (!connect_components()) throw nb::python_error();
}

void record_call_sites(std::tuple<ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t> offsets) {
  const auto [state, indirect, code, instruction, previous] = offsets;
  frame_offsets = {state, indirect, code, instruction, previous};
  frames_known = true;
}

// Gives the group a backend for tb over those that it has: one for CPU tensors, and perhaps one for tensors of another
// device, which is an engine of streams.
void add_backend(const c10::intrusive_ptr<c10d::ProcessGroup> &group) {
  c10::DeviceType streams_device = c10::kCPU;
  for (const c10::Device device : group->getDeviceTypes())
    if (device.type() != c10::kCPU) streams_device = device.type();
  auto of_streams = streams_device == c10::kCPU ? nullptr : group->getBackend(streams_device);
  group->setBackend(device_type, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<Backend>(group->getBackend(c10::kCPU), std::move(of_streams), streams_device));
}

} // namespace
} // namespace tb::distributed

TORCH_LIBRARY(tb_distributed, m) {
  m.def("add_backend(__torch__.torch.classes.c10d.ProcessGroup group) -> ()", &tb::distributed::add_backend);
}

NB_MODULE(_distributed, m) {
  using namespace tb::distributed;
  nb::set_leak_warnings(false);
  m.doc() = "Process groups of tb devices. Use torch.distributed instead.";
  m.def("_connect", &import_tables,
        "Imports the other components' function tables. ImportError: one is missing or does not match.");
  m.def("_record_call_sites", &record_call_sites, nb::arg("offsets"),
        "Lets failures name the line of the call. `offsets`: what tb_ops._frames.find() returns.");
  m.def(
      "_end", [](int64_t milliseconds) { CallOrder::end_all(std::chrono::milliseconds(milliseconds)); },
      nb::arg("milliseconds"), nb::call_guard<nb::gil_scoped_release>(),
      "Waits for the pending calls of all groups, and gives up those that are not done in time.");
  m.def(
      "_wait_on_host", [](bool on_host) { host_waits = on_host; }, nb::arg("on_host"),
      "Whether Work.wait() blocks the calling thread, and raises the call's failure, instead of the current stream.");
}
