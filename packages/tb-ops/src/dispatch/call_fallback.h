// The counted CPU fallback for kernels that do not support all calls.
#pragma once
#include <ATen/native/CPUFallback.h>

#include <utility>

#include "dispatch/fallback.h"

namespace tb::ops {

// Runs one call on the CPU, as in call_fallback<at::_ops::add_out>(self, other, alpha, out).
template <class Op, class... Arguments> decltype(auto) call_fallback(Arguments &&...arguments) {
  return at::native::call_fallback_fn<&counted_fallback, Op>::call(std::forward<Arguments>(arguments)...);
}

} // namespace tb::ops
