// The default driver, the current device and the facts of the ABI in Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdio>

#include "bindings/bindings.h"
#include "host/errors.h"
#include "host/gil.h"
#include "process/process.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::device {
namespace {

void check(tb_status status, const char *function, int32_t device) {
  if (status == TB_OK) return;
  Driver *driver = default_driver();
  throw Failure::take(status, driver ? driver->name.c_str() : "", function, device);
}

int32_t device_count() {
  int32_t out = 0;
  tb_status status;
  {
    Unlocked unlocked;
    status = device_table.device_count(&out);
  }
  check(status, "device_count", -1);
  return out;
}

void set_current_device(int32_t device) {
  tb_status status;
  {
    Unlocked unlocked;
    status = device_table.set_current_device(device);
  }
  check(status, "set_current_device", device);
}

void ensure_usable() {
  if (ended.load() == Ended::no) return;
  Driver *driver = default_driver();
  throw Failure{TB_FAILED_PRECONDITION, 0, -1, driver ? driver->name : "", "driver", refusal_text()};
}

void set_default(Driver &driver) {
  if (!set_default_driver(&driver))
    throw Failure{TB_ALREADY_EXISTS, 0,        -1,
                  driver.name,       "driver", "the process has its default driver already, and keeps it"};
}

nb::list slots() {
  nb::list out;
  for (const SlotFacts &slot : driver_slots)
    out.append(nb::make_tuple(slot.group, slot.required ? "REQUIRED" : "OPTIONAL", slot.name, slot.offset));
  return out;
}

nb::dict about() {
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(slots_hash()));
  nb::dict out;
  out["version"] = TB_PACKAGE_VERSION;
  out["platform"] = TB_PLATFORM;
  out["device_abi"] = nb::make_tuple(TB_ABI_MAJOR, TB_ABI_MINOR);
  out["c_api"] = nb::make_tuple(TB_DEVICE_API_MAJOR, TB_DEVICE_API_MINOR);
  out["slots_hash"] = hash;
  return out;
}

} // namespace

void bind_process(nb::module_ &module) {
  module.def("ensure_usable", ensure_usable, "Raises FailedPreconditionError in a forked child and after the end.");
  module.def("default_or_none", default_driver, nb::rv_policy::reference,
             nb::sig("def default_or_none() -> Driver | None"), "The default driver if it is open.");
  module.def("set_default", set_default, "driver"_a, "Makes an open driver the process's default, once.");
  module.def("is_open", [] { return device_table.is_open() != 0; }, "Whether the default driver is open and usable.");
  module.def(
      "forked", [] { return forked != 0; }, "Whether this is a forked child of a process that had used a driver.");
  module.def("device_count", device_count, "The number of devices of the default driver.");
  module.def("current_device", [] { return device_table.current_device(); }, "This thread's current device.");
  module.def("set_current_device", set_current_device, "device"_a, "Sets this thread's current device.");
  module.def("slots", slots, nb::sig("def slots() -> list[tuple[str, str, str, int]]"),
             "The driver table: group, REQUIRED or OPTIONAL, name and byte offset of each function, in order.");
  module.def("about", about, nb::sig("def about() -> dict[str, object]"),
             "version, platform, device_abi, c_api, and the hash of the slot list this was built with.");
}

} // namespace tb::device
