// The arguments of meta functions.
#pragma once
#include "structured/structured.h"

namespace tb::ops {

template <class Meta, size_t outputs = 1> using Out = Structured<Meta, Schema::out, outputs>;

// What a meta function takes in place of an operator's optional arguments.
template <class Argument> const Argument &meta_argument(const Argument &argument) { return argument; }
inline at::OptionalScalarRef meta_argument(const std::optional<at::Scalar> &value) {
  return value ? at::OptionalScalarRef(*value) : at::OptionalScalarRef();
}
inline at::OptionalTensorRef meta_argument(const std::optional<at::Tensor> &tensor) {
  return tensor && tensor->defined() ? at::OptionalTensorRef(*tensor) : at::OptionalTensorRef();
}

} // namespace tb::ops
