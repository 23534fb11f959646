// Calls that check on the host, from the kernels of structured operators.
#pragma once
#include <ATen/native/CPUFallback.h>

#include "dispatch/host_checks.h"

namespace tb::ops {

// The CPU's kernel, with a wait: call_checked<at::_ops::linalg_inv_ex>(A, true).
template <class Op, class... Arguments> decltype(auto) call_checked(Arguments &&...arguments) {
  return at::native::call_fallback_fn<&run_checked, Op>::call(std::forward<Arguments>(arguments)...);
}

} // namespace tb::ops
