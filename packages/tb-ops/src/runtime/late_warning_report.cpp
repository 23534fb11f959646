// Hands the warnings of kernels to Python.
#include "runtime/late_warning_report.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "runtime/late_warnings.h"
#include "runtime/runtime.h"
#include "tb/python_error.h"

namespace nb = nanobind;

namespace tb::ops {
namespace {

PyObject *reporter = nullptr;

nb::list as_python(const std::vector<LateWarning> &warnings) {
  nb::list out;
  for (const LateWarning &warning : warnings) {
    nb::list frames;
    for (const PythonCallSite::Frame &frame : warning.site.frames)
      if (frame.code) frames.append(nb::make_tuple(frame.code, frame.instruction));
    out.append(nb::make_tuple(nb::bytes(warning.text.data(), warning.text.size()).attr("decode")("utf-8", "replace"),
                              warning.deprecation, frames, warning.times));
  }
  return out;
}

// Leaves an exception set where Python's filters made one of a warning; those that would be further ones are kept.
bool report() {
  LateWarnings taken = take_warnings();
  const nb::object answer = nb::handle(reporter)(as_python(taken.warnings), taken.dropped);
  std::vector<LateWarning> left;
  for (const nb::handle place : answer[1]) left.push_back(std::move(taken.warnings[nb::cast<size_t>(place)]));
  if (!left.empty()) keep_warnings(std::move(left));
  const nb::object raised = answer[0];
  if (raised.is_none()) return false;
  PyErr_SetObject(raised.type().ptr(), raised.ptr());
  return true;
}

// Autograd's threads may be without a state of Python's, or with one but without Python code.
bool runs_python() {
  if (!Py_IsInitialized() || !PyGILState_GetThisThreadState()) return false;
  return !frames_known || current_call_site().frames[0].code;
}

bool forked() { return __atomic_load_n(runtime.device.forked, __ATOMIC_RELAXED) != 0; }

[[gnu::noinline]] int32_t report_here() noexcept {
  if (!reporter || forked() || !runs_python()) return 0; // a child has its parent's warnings, which the parent reports
  const nb::gil_scoped_acquire lock;
  if (PyErr_Occurred() || !PyEval_GetFrame()) return 0;
  try {
    return report() ? 1 : 0;
  } catch (nb::python_error &error) { // no warning: Python's own trouble, such as a KeyboardInterrupt
    error.restore();
    return 1;
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return 1;
  }
}

} // namespace

int32_t report_warnings() noexcept { return warnings_wait() ? report_here() : 0; }

void report_warnings_or_throw() {
  if (!warnings_wait() || report_here() == 0) [[likely]]
    return;
  const nb::gil_scoped_acquire lock;
  throw_python_error();
}

void set_warning_reporter(PyObject *function) {
  reporter = function;
  runtime.device.set_teller(&report_warnings);
}

void report_last_warnings(void *) noexcept {
  keep_no_warnings();
  if (!reporter || forked() || !Py_IsInitialized()) return;
  const nb::gil_scoped_acquire lock;
  try {
    while (warnings_wait() && report()) PyErr_WriteUnraisable(nullptr);
  } catch (nb::python_error &error) {
    error.restore();
    PyErr_WriteUnraisable(nullptr);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "tb: warnings of kernels were lost: %s\n", error.what());
  }
}

} // namespace tb::ops
