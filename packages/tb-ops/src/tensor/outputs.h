// New outputs, laid out as the CPU operators lay out theirs, and the copy of a result into an output.
#pragma once
#include <c10/core/MemoryFormat.h>

#include "structured/structured.h"

namespace tb::ops {

inline at::Tensor empty_on(const at::Tensor &like, c10::IntArrayRef sizes, c10::ScalarType dtype) {
  return empty(sizes, {}, dtype, device_number(like));
}

inline at::Tensor empty_formatted(const at::Tensor &like, c10::IntArrayRef sizes, c10::ScalarType dtype,
                                  c10::MemoryFormat format) {
  return create_output(sizes, {}, like.options().dtype(dtype).memory_format(format));
}

// The strides of `like` if they are dense, else its dimension order, as at::empty_like preserves them.
at::Tensor empty_preserving(const at::Tensor &like, c10::ScalarType dtype);
// The layout that a TensorIterator chooses for operands of one shape and layout: contiguous and channels-last operands give
// such strides, whatever theirs are in dimensions of size 1.
at::Tensor empty_pointwise(const at::Tensor &like, c10::ScalarType dtype);
// The layout that a TensorIterator chooses for `like` and operands of other shapes, numbers for example: the dimension order,
// also of dimensions of size 1, which contiguous tensors may have anywhere.
at::Tensor empty_iterated(const at::Tensor &like, c10::ScalarType dtype);

inline const at::Tensor &value_or_undefined(const std::optional<at::Tensor> &tensor) {
  static const at::Tensor undefined;
  return tensor ? *tensor : undefined;
}

// On the worker: src into dst, with any strides and types.
void copy_result(at::Tensor &dst, const at::Tensor &src);

// copying<f>: a worker kernel (out, arguments...) for a CPU operator f that returns a new tensor.
template <auto function>
inline constexpr auto copying = [](at::Tensor &out, auto &&...arguments) { copy_result(out, function(arguments...)); };

// Picks one of PyTorch's overloads by its type.
template <class Function> constexpr Function *overload(Function *function) { return function; }

} // namespace tb::ops
