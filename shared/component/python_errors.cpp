// python_errors.cpp -- raises failures as Python exceptions.
#include "python_errors.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace tb {

void raise_status(tb_status status, const char *function, int32_t device) {
  tb_error error{};
  error.struct_size = sizeof error;
  if (!host.take_error(&error) || error.status != status) {
    error = {};
    error.device = device;
  }
  if (!error.function[0]) snprintf(error.function, sizeof error.function, "%s", function);
  if (error.device < 0) error.device = device;
  nb::object failure = nb::module_::import_("tb_device")
                           .attr("exception")(status, error.text, nb::str(error.driver), nb::str(error.function),
                                              error.device, error.native_code);
  PyErr_SetObject(failure.type().ptr(), failure.ptr());
  throw nb::python_error();
}

void raise(tb_status status, const char *function, int32_t device, const char *text) {
  fail(status, device, function, text);
  raise_status(status, function, device);
}

void check_wait(tb_status status, const char *function, int32_t device) {
  check(status, function, device);
  if (host.tell && host.tell() != 0) throw nb::python_error(); // an older tb-device has no `tell`
}

Driver require_driver() {
  Driver driver;
  check(open_driver(&driver), "driver", -1);
  return driver;
}

} // namespace tb
