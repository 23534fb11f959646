// Pointwise kernels on the operands of a TensorIterator, which has computed shapes, strides and the common dtype.
#pragma once
#include <ATen/TensorIterator.h>

#include "backends/jit/element_type.h"

namespace tb::ops::jit {

// Queues `functor` (a struct of unary.cuh or binary.cuh) over the iterator's operands, computed in type `common`.
void pointwise(const at::TensorIteratorBase &iterator, const char *functor, c10::ScalarType common,
               c10::ArrayRef<c10::Scalar> scalars = {});

// Whether pointwise() accepts the iterator: one output, known types, few enough operands and dimensions, and at most
// one number on the CPU.
bool fits(const at::TensorIteratorBase &iterator);

// Copies element by element into a tensor of the same shape on the same device, with any strides. Returns false, and
// copies nothing, if a type is not supported or there are too many dimensions that do not merge.
bool copy_elements(const at::Tensor &from, const at::Tensor &to);
// Writes one value to every element.
void fill_elements(const at::Tensor &tensor, const c10::Scalar &value);

// Returns the tensor itself if it is contiguous, else a contiguous copy.
at::Tensor contiguous(const at::Tensor &tensor);

// Returns null for an undefined tensor.
inline const void *data_of(const at::Tensor &tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; }

} // namespace tb::ops::jit
