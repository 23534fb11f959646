// Converts an operator's arguments to those of its meta function.
#pragma once
#include "structured/structured.h"

namespace tb::ops {

template <class Meta, size_t outputs = 1> using Out = Structured<Meta, Schema::out, outputs>;

// Returns the argument as the meta function takes it; optional arguments have other types there.
template <class Argument> const Argument &meta_argument(const Argument &argument) { return argument; }
inline at::OptionalScalarRef meta_argument(const std::optional<at::Scalar> &value) {
  return value ? at::OptionalScalarRef(*value) : at::OptionalScalarRef();
}
inline at::OptionalTensorRef meta_argument(const std::optional<at::Tensor> &tensor) {
  return tensor && tensor->defined() ? at::OptionalTensorRef(*tensor) : at::OptionalTensorRef();
}

} // namespace tb::ops
