// core.cpp -- the module torch_backend._core: what the Python side asks of the C++ side.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tb/tensor_caster.h"

#include "components.h"
#include "generator.h"
#include "registration.h"

namespace nb = nanobind;
using namespace nb::literals;

// As torch/csrc/Generator.h declares it; that header brings in what does not compile under Py_LIMITED_API.
PyObject *THPGenerator_Wrap(const at::Generator &generator);

namespace {

using tb::components;
using tb::ensure_ready;

void connect() {
  if (!tb::connect_components()) throw nb::python_error();
}

void register_backend() {
  if (at::isPrivateUse1HooksRegistered() || c10::impl::hasDeviceGuardImpl(tb::device_type))
    throw nb::import_error("another backend has already registered itself as PyTorch's PrivateUse1 device in this "
                           "process, and PyTorch has room for one. Uninstall one of the two.");
  tb::register_guard();
  tb::register_device_allocator();
  tb::register_host_allocator();
  tb::register_hooks();
  tb::register_graph();
  tb::register_shallow_copy();
}

int current_device() { return components.device.current_device(); }

// -1 leaves the current device alone, as torch.cuda does.
int exchange_device(int device) {
  const int previous = current_device();
  if (device >= 0 && device != previous) {
    ensure_ready();
    tb::check(components.device.set_current_device(device), "set_current_device", device);
  }
  return previous;
}

nb::dict device_properties(int device) {
  ensure_ready();
  tb_device_info info{};
  info.struct_size = sizeof info;
  tb_driver_info driver{};
  driver.struct_size = sizeof driver;
  tb::check(components.device.device_info(device, &info), "device_info", device);
  tb::check(components.api->get_info(components.driver, &driver), "get_info");
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
  tb::check(components.api->peer_can_access(components.driver, device, peer, &answer), "peer_can_access", device);
  return answer != 0;
}

void set_memory_limit(int device, uint64_t bytes) {
  ensure_ready();
  tb::check(components.allocator.set_limit(device, bytes), "set_limit", device);
}

void empty_cache(int device) {
  ensure_ready();
  tb::check(components.allocator.empty_cache(device), "empty_cache", device);
}

// torch.Event.elapsed_time takes exact torch.Event objects only, so torch.tb.Event asks here, by Event.event_id.
double elapsed_time(uint64_t start, uint64_t end) {
  return c10::impl::getDeviceGuardImpl(tb::device_type)
      ->elapsedTime(reinterpret_cast<void *>(start), reinterpret_cast<void *>(end), -1);
}

// Under torch.cuda.host_memory_stats' names: "active" is in use, "allocated" what the driver gave.
nb::dict host_statistics() {
  ensure_ready();
  tb_allocator_statistics in{};
  in.struct_size = sizeof in;
  tb::check(components.allocator.host_statistics(&in), "host_statistics");
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

nb::object default_generator(int device) {
  return nb::steal(THPGenerator_Wrap(tb::default_generator(static_cast<c10::DeviceIndex>(device))));
}

} // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);
  tb::register_torch_exceptions();
  m.doc() = "Registers tb devices with PyTorch's C++ side. Use torch.tb and torch_backend instead.";
  m.def("_connect", &connect,
        "Takes the other components' function tables. ImportError: one is missing or does not match.");
  m.def("_register", &register_backend,
        "Registers guard, allocators, hooks and `.data` support. Once a process; touches no device.");
  m.def("_open", &tb::open_driver, nb::call_guard<nb::gil_scoped_release>(),
        "Opens the process's driver. RuntimeError with the driver's own reason.");
  m.def("_set_ready", &tb::set_ready, "The operators are registered: devices may be used from now on.");
  m.def("in_bad_fork", &tb::in_bad_fork, "True in a forked child of a process that had used a driver.");
  m.def("device_count", &tb::device_count, nb::call_guard<nb::gil_scoped_release>(),
        "Number of devices; 0 on any failure. Opens the driver.");
  m.def("current_device", &current_device, "This thread's current device.");
  m.def("exchange_device", &exchange_device, "device"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Makes `device` this thread's current one (-1: no change) and returns the one before.");
  m.def("device_properties", &device_properties, "device"_a,
        nb::sig("def device_properties(device: int) -> dict[str, typing.Any]"),
        "Facts about a device; sizes in bytes.");
  m.def("can_access_peer", &can_access_peer, "device"_a, "peer"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Whether `device` reaches the memory of `peer` directly.");
  m.def("set_memory_limit", &set_memory_limit, "device"_a, "bytes"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Limit of reserved memory on a device in bytes; 2**64 - 1: none.");
  m.def("empty_cache", &empty_cache, "device"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Gives cached memory back to the driver; device -1: all.");
  m.def("elapsed_time", &elapsed_time, "start"_a, "end"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Milliseconds between two recorded events, given by their event_id.");
  m.def("host_statistics", &host_statistics, nb::sig("def host_statistics() -> dict[str, int]"),
        "Statistics of the pinned memory.");
  m.def("default_generator", &default_generator, "device"_a,
        nb::sig("def default_generator(device: int) -> torch.Generator"), "The device's own torch.Generator.");
}
