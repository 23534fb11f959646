// Pointwise kernels on the operands of a TensorIterator, which has computed shapes, strides and the common dtype.
#pragma once
#include <ATen/TensorIterator.h>

#include "backends/jit/element_type.h"

namespace tb::ops::jit {

// Queues `functor` (a struct of unary.cuh or binary.cuh) over the iterator's operands, computed in type `common`.
void pointwise(const at::TensorIteratorBase &iterator, const char *functor, c10::ScalarType common,
               c10::ArrayRef<c10::Scalar> scalars = {});

// Whether the kernels can do that: one output, known types, few enough operands and dimensions, at most one number.
bool fits(const at::TensorIteratorBase &iterator);

// Copies element by element into a tensor of the same shape, any strides and supported types, on the same device. False: other
// types, or too many dimensions that do not merge, and nothing has happened.
bool copy_elements(const at::Tensor &from, const at::Tensor &to);
// Writes one value to every element.
void fill_elements(const at::Tensor &tensor, const c10::Scalar &value);

// The tensor itself if it is contiguous, else a contiguous copy.
at::Tensor contiguous(const at::Tensor &tensor);

} // namespace tb::ops::jit
