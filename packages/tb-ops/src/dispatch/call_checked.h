// Runs a call that checks on the host from a typed kernel.
#pragma once
#include <ATen/native/CPUFallback.h>

#include "dispatch/host_checks.h"

namespace tb::ops {

// Waits for the stream and runs the CPU's kernel, as in call_checked<at::_ops::linalg_inv_ex>(A, true).
template <class Op, class... Arguments> decltype(auto) call_checked(Arguments &&...arguments) {
  return at::native::call_fallback_fn<&run_checked, Op>::call(std::forward<Arguments>(arguments)...);
}

} // namespace tb::ops
