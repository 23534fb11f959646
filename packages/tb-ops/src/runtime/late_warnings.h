// Warnings of kernels, which run on a stream's worker without Python: kept, with the launch that they belong to, until
// somebody with Python's lock waits for the device.
#pragma once
#include <Python.h>

#include <c10/util/Exception.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/call_site.h"

namespace tb {

// While it lives, what this thread warns of belongs to a launch. Nothing happens where nothing is warned of.
class WarningScope {
public:
  explicit WarningScope(const Caller &caller);
  ~WarningScope();
  WarningScope(const WarningScope &) = delete;
  WarningScope &operator=(const WarningScope &) = delete;
};

struct LateWarning {
  std::string text; // as PyTorch gives it to Python
  bool deprecation = false;
  Caller caller;
  uint64_t times = 1;
};

struct LateWarnings {
  std::vector<LateWarning> warnings; // no two alike, in the order in which they first came
  uint64_t dropped = 0;              // beyond what is kept: see late_warnings.cpp
};

// Whether there are any. A wait that follows the kernel's end sees what it warned of.
bool warnings_wait() noexcept;
LateWarnings take_warnings();
// In front of those that came meanwhile.
void keep_warnings(std::vector<LateWarning> warnings);
// What comes from now on is printed by PyTorch at once: nobody will wait any more.
void keep_no_warnings() noexcept;

// Hands them to Python: on the thread that waited, after its wait. As tell of tb_device_table; for operators the
// second, which throws what Python raised.
int32_t tell_warnings() noexcept;
void tell_warnings_or_throw();
// tell(warnings, dropped) of _late_warnings.py, for the life of the process.
void set_warning_teller(PyObject *teller);
// At exit, with Python's lock not held: tells what is left.
void tell_last_warnings(void *) noexcept;

} // namespace tb
