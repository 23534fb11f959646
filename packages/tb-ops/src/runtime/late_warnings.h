// Warnings of kernels. Kernels run on a stream's worker without Python, so a warning is kept, with the launch that it
// belongs to, until a thread with Python's lock waits for the device (late_warning_report.h).
#pragma once
#include <c10/util/Exception.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/call_site.h"

namespace tb::ops {

// While it lives, the warnings of this thread belong to a launch. It costs next to nothing without warnings.
class WarningScope {
public:
  explicit WarningScope(const PythonCallSite &site);
  ~WarningScope();
  WarningScope(const WarningScope &) = delete;
  WarningScope &operator=(const WarningScope &) = delete;

private:
  const c10::WarningUtils::WarningHandlerGuard guard_;
};

struct LateWarning {
  std::string text; // as PyTorch gives it to Python
  bool deprecation = false;
  PythonCallSite site;
  uint64_t times = 1;
};

struct LateWarnings {
  std::vector<LateWarning> warnings; // all different, in the order in which they first came
  uint64_t dropped = 0;              // beyond what is kept: see late_warnings.cpp
};

// Whether there are any. A wait that follows the kernel's end sees its warnings.
bool warnings_wait() noexcept;
LateWarnings take_warnings();
// Keeps warnings again, in front of those that came meanwhile.
void keep_warnings(std::vector<LateWarning> warnings);
// PyTorch prints later warnings at once: no thread will wait any more.
void keep_no_warnings() noexcept;

} // namespace tb::ops
