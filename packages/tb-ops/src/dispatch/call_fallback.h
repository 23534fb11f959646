// For kernels that take some calls only: PyTorch's own functions check the arguments, and the counted CPU fallback has
// the rest.
#pragma once
#include <ATen/native/CPUFallback.h>

#include "dispatch/fallback.h"
#include "structured/structured.h"

namespace tb {

// The counted fallback for one call: fall_back<at::_ops::add_out>(self, other, alpha, out).
template <class Op, class... Arguments> decltype(auto) fall_back(Arguments &&...arguments) {
  return at::native::call_fallback_fn<&counted_fallback, Op>::call(std::forward<Arguments>(arguments)...);
}

template <class Meta, size_t outputs = 1> using Out = Structured<Meta, Schema::out, outputs>;

// What a meta function takes in place of an operator's optional arguments.
template <class Argument> const Argument &meta_argument(const Argument &argument) { return argument; }
inline at::OptionalScalarRef meta_argument(const std::optional<at::Scalar> &value) {
  return value ? at::OptionalScalarRef(*value) : at::OptionalScalarRef();
}
inline at::OptionalTensorRef meta_argument(const std::optional<at::Tensor> &tensor) {
  return tensor && tensor->defined() ? at::OptionalTensorRef(*tensor) : at::OptionalTensorRef();
}

} // namespace tb
