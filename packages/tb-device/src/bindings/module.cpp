// The Python module tb_device._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>

#include "bindings/bindings.h"
#include "host/errors.h"
#include "host/gil.h"
#include "process/process.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::device {
namespace {

nb::object *exception = nullptr;      // tb_device.exceptions.exception
nb::object *open_by_python = nullptr; // tb_device.discovery.open_default

// Runs discovery, which is Python's. Takes its lock before anything of ours, so no two locks can cross.
tb_status open_default() {
  if (!Py_IsInitialized())
    return fail(TB_FAILED_PRECONDITION, -1, nullptr, "driver", "Python, which finds the driver, is not running");
  nb::gil_scoped_acquire locked;
  try {
    (*open_by_python)();
    return TB_OK;
  } catch (nb::python_error &error) {
    nb::object value = nb::borrow(error.value());
    tb_status status = TB_UNAVAILABLE;
    if (nb::hasattr(value, "status")) status = nb::cast<tb_status>(value.attr("status"));
    set_error(status, 0, -1, nullptr, "driver", nb::str(value).c_str());
    return status;
  }
}

nb::str text_of(const std::string &text) {
  return nb::steal<nb::str>(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void raise(const Failure &failure) {
  if (!exception) {
    PyErr_SetString(PyExc_RuntimeError, failure.message().c_str());
    return;
  }
  nb::object error = (*exception)(failure.status, text_of(failure.text), text_of(failure.driver),
                                  text_of(failure.function), failure.device, failure.native_code);
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())), error.ptr());
}

nb::str message(tb_status status, std::string text, std::string driver, std::string function, int32_t device,
                int64_t native_code) {
  return text_of(
      Failure{status, native_code, device, std::move(driver), std::move(function), std::move(text)}.message());
}

void connect(nb::object opener, nb::object exception_maker) {
  open_by_python = new nb::object(std::move(opener)); // as long as the process: called from C at any time
  exception = new nb::object(std::move(exception_maker));
  set_opener(open_default);
}

nb::dict export_facts(nb::capsule capsule) {
  auto *record = static_cast<const tb_export *>(PyCapsule_GetPointer(capsule.ptr(), TB_EXPORT_CAPSULE));
  if (!record) throw nb::python_error();
  nb::dict out;
  out["component"] = record->component;
  out["version"] = record->version;
  out["platform"] = record->platform;
  out["c_api"] = nb::make_tuple(record->major, record->minor);
  return out;
}

// Under Python's lock.
std::map<std::string, std::string> &importer_hashes() {
  static std::map<std::string, std::string> hashes;
  return hashes;
}

void note_importer(const std::string &component, const std::string &hash) { importer_hashes()[component] = hash; }

nb::dict importers() {
  nb::dict out;
  for (const auto &[component, hash] : importer_hashes()) out[component.c_str()] = hash;
  return out;
}

const tb_export exported = {{'t', 'b', 'e', 'x', 'p', 'o', 'r', 't'},
                            TB_DEVICE_API_MAJOR,
                            TB_DEVICE_API_MINOR,
                            sizeof(tb_device_table),
                            "tb-device",
                            TB_PACKAGE_VERSION,
                            TB_PLATFORM,
                            &device_table};

} // namespace
} // namespace tb::device

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);
  tb::device::watch_fork(); // before any component's handler, which then knows whether the driver was lost
  nb::register_exception_translator([](const std::exception_ptr &thrown, void *) {
    try {
      std::rethrow_exception(thrown);
    } catch (const tb::device::Failure &failure) {
      tb::device::raise(failure);
    }
  });
  module.doc() = "The C++ core of tb_device: drivers loaded, checked and completed. Use tb_device instead.";
  module.attr("_tb_export") = nb::capsule(&tb::device::exported, TB_EXPORT_CAPSULE);
  module.def("_connect", tb::device::connect, "opener"_a, "exception"_a,
             "Takes the functions that open the default driver and make exceptions.");
  module.def("_shutdown", tb::device::shut_down, nb::call_guard<tb::device::Unlocked>(),
             "Waits for all devices and closes every driver; after it every call to a driver is refused.");
  module.def("export_facts", tb::device::export_facts, "capsule"_a,
             nb::sig("def export_facts(capsule: object) -> dict[str, object]"),
             "What a component's `_tb_export` says of itself: component, version, platform, c_api.");
  module.def("_note_importer", tb::device::note_importer, "component"_a, "slots_hash"_a,
             "Takes what a component that imports tb-device's table was compiled with (tb/component_python.h).");
  module.def("importers", tb::device::importers, nb::sig("def importers() -> dict[str, str]"),
             "The components that imported tb-device's table, each with the hash of its slot list.");
  module.def("message", tb::device::message, "status"_a, "text"_a, "driver"_a, "function"_a, "device"_a,
             "native_code"_a, "The whole text of a failure, as exceptions show it.");
  tb::device::bind_driver(module);
  tb::device::bind_layers(module);
  tb::device::bind_process(module);
}
