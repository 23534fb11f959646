// core.cpp -- the extension torch_backend._core: the functions that the Python side calls.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tb/tensor_caster.h"

#include "components.h"
#include "generator.h"
#include "memory_places.h"
#include "python_call_site.h"
#include "registration.h"
#include "stream_sanitizer.h"

namespace nb = nanobind;
using namespace nb::literals;

// As torch/csrc/Generator.h declares it. That header does not compile under Py_LIMITED_API.
PyObject *THPGenerator_Wrap(const at::Generator &generator);

namespace tb::backend {
namespace {

void connect() {
  if (!connect_components()) throw nb::python_error();
}

void register_backend() {
  if (at::isPrivateUse1HooksRegistered() || c10::impl::hasDeviceGuardImpl(device_type))
    throw nb::import_error("another backend has already registered itself as PyTorch's PrivateUse1 device in this "
                           "process, and PyTorch has room for one. Uninstall one of the two.");
  register_guard();
  register_device_allocator();
  register_host_allocator();
  register_hooks();
  register_graph();
  register_shallow_copy();
  register_first_use();
  register_profiler_stubs();
  register_kineto_profiler();
}

int current_device() { return components.device.current_device(); }

// -1 does not change the current device, as in torch.cuda.
int exchange_device(int device) {
  const int previous = current_device();
  if (device >= 0 && device != previous) {
    ensure_ready();
    check(components.device.set_current_device(device), "set_current_device", device);
  }
  return previous;
}

nb::dict device_properties(int device) {
  ensure_ready();
  tb_device_info info{};
  info.struct_size = sizeof info;
  tb_driver_info driver{};
  driver.struct_size = sizeof driver;
  check(components.device.device_info(device, &info), "device_info", device);
  check(components.api->get_info(components.driver, &driver), "get_info");
  nb::dict out;
  out["name"] = nb::str(info.name);
  out["arch"] = nb::str(info.arch);
  out["uuid"] = nb::bytes(reinterpret_cast<const char *>(info.uuid), sizeof info.uuid);
  out["total_memory"] = info.total_memory;
  out["multi_processor_count"] = info.compute_units;
  out["host_accessible"] = bool(info.flags & TB_DEVICE_HOST_ACCESSIBLE);
  out["priority_least"] = info.priority_least;
  out["priority_greatest"] = info.priority_greatest;
  out["driver"] = nb::str(driver.name);
  out["driver_version"] = nb::str(driver.version);
  return out;
}

bool can_access_peer(int device, int peer) {
  ensure_ready();
  int32_t answer = 0;
  check(components.api->peer_can_access(components.driver, device, peer, &answer), "peer_can_access", device);
  return answer != 0;
}

void set_memory_limit(int device, uint64_t bytes) {
  ensure_ready();
  check(components.allocator.set_limit(device, bytes), "set_limit", device);
}

void empty_cache(int device) {
  ensure_ready();
  check(components.allocator.empty_cache(device), "empty_cache", device);
}

// torch.Event.elapsed_time accepts objects of exactly torch.Event, so torch.tb.Event calls this with both event_ids.
double elapsed_time(uint64_t start, uint64_t end) {
  return c10::impl::getDeviceGuardImpl(device_type)
      ->elapsedTime(reinterpret_cast<void *>(start), reinterpret_cast<void *>(end), -1);
}

// The names are those of torch.cuda.host_memory_stats: "active" is in use, "allocated" is from the driver.
nb::dict host_statistics() {
  ensure_ready();
  tb_allocator_statistics in{};
  in.struct_size = sizeof in;
  check(components.allocator.host_statistics(&in), "host_statistics");
  nb::dict out;
  auto put = [&out](const char *name, const tb_statistic &value) {
    const std::string key(name);
    out[nb::str((key + ".current").c_str())] = value.current;
    out[nb::str((key + ".peak").c_str())] = value.peak;
    out[nb::str((key + ".allocated").c_str())] = value.allocated;
    out[nb::str((key + ".freed").c_str())] = value.freed;
  };
  put("active_requests", in.allocation[0]);
  put("active_bytes", in.allocated_bytes[0]);
  put("allocations", in.segment[0]);
  put("allocated_bytes", in.reserved_bytes[0]);
  out["num_host_alloc"] = in.num_device_alloc;
  out["num_host_free"] = in.num_device_free;
  return out;
}

PyObject *race_reporter = nullptr; // for the life of the process

using Offsets = std::tuple<ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t>;

void know_frames(Offsets offsets) {
  const auto [state, indirect, code, instruction, previous] = offsets;
  frame_offsets = {state, indirect, code, instruction, previous};
  frames_known = state >= 0;
}

void record_memory_places(int which, Offsets offsets) {
  know_frames(offsets);
  record_places(static_cast<RecordPlaces>(which));
}

bool watch(nb::callable reporter, Offsets offsets) {
  know_frames(offsets);
  if (!race_reporter) race_reporter = reporter.release().ptr();
  return watch_streams([] {
    if (PyObject *result = PyObject_CallNoArgs(race_reporter))
      Py_DECREF(result);
    else
      PyErr_WriteUnraisable(race_reporter);
  });
}

nb::object python_default_generator(int device) {
  return nb::steal(THPGenerator_Wrap(default_generator(static_cast<c10::DeviceIndex>(device))));
}

} // namespace
} // namespace tb::backend

NB_MODULE(_core, m) {
  using namespace tb::backend;
  nb::set_leak_warnings(false);
  tb::register_torch_exceptions();
  m.doc() = "Registers tb devices with PyTorch's C++ side. Use torch.tb and torch_backend instead.";
  m.def("_connect", &connect,
        "Imports the other components' function tables. ImportError: one is missing or does not match.");
  m.def("_register", &register_backend,
        "Registers guard, allocators, hooks and `.data` support, once a process. Uses no device.");
  m.def("_open", &open_driver, nb::call_guard<nb::gil_scoped_release>(),
        "Opens the process's driver. RuntimeError with the driver's own reason.");
  m.def("_register_first_use", &register_first_use,
        "Operators that C++ calls make tb ready, until _unregister_first_use().");
  m.def("_unregister_first_use", &unregister_first_use, "Called before the operators are registered.");
  m.def("_set_ready", &set_ready, "Called when the operators are registered: from now on devices may be used.");
  m.def("in_bad_fork", &in_bad_fork, "True in a forked child of a process that had used a driver.");
  m.def("device_count", &device_count, nb::call_guard<nb::gil_scoped_release>(),
        "Number of devices; 0 on any failure. Opens the driver.");
  m.def("current_device", &current_device, "This thread's current device.");
  m.def("exchange_device", &exchange_device, "device"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Makes `device` this thread's current one (-1: no change) and returns the previous one.");
  m.def("device_properties", &device_properties, "device"_a,
        nb::sig("def device_properties(device: int) -> dict[str, typing.Any]"),
        "Facts about a device; sizes in bytes.");
  m.def("can_access_peer", &can_access_peer, "device"_a, "peer"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Whether `device` reaches the memory of `peer` directly.");
  m.def("set_memory_limit", &set_memory_limit, "device"_a, "bytes"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Limits the reserved memory on a device, in bytes; 2**64 - 1 removes the limit.");
  m.def("empty_cache", &empty_cache, "device"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Returns cached memory to the driver; device -1: of all devices.");
  m.def("_record_memory_places", &record_memory_places, "which"_a, "offsets"_a,
        "Events of the memory history keep their place in Python from now on: 0 none, 1 those of allocations, 2 all. "
        "`offsets`: as of _watch_streams.");
  m.def("_frames_of_memory_place", &frames_of_place, "place"_a,
        nb::sig("def _frames_of_memory_place(place: int) -> list[tuple[int, int]]"),
        "The frames of such a place, innermost first, as (address of the code, address of the instruction).");
  m.def(
      "_watch_streams", &watch, "reporter"_a, "offsets"_a,
      nb::sig(
          "def _watch_streams(reporter: collections.abc.Callable[[], None], offsets: tuple[int, int, int, int, int]) "
          "-> bool"),
      "Tells the layer races what operators use from now on; reporter() is called after one in which a race was found. "
      "`offsets`: what tb_ops._frames.find() returns, or five times -1. False: the driver was opened without the "
      "layer.");
  m.def("elapsed_time", &elapsed_time, "start"_a, "end"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Milliseconds between two recorded events, given by their event_id.");
  m.def("host_statistics", &host_statistics, nb::sig("def host_statistics() -> dict[str, int]"),
        "Statistics of pinned memory.");
  m.def("default_generator", &python_default_generator, "device"_a,
        nb::sig("def default_generator(device: int) -> torch.Generator"), "The default torch.Generator of a device.");
}
