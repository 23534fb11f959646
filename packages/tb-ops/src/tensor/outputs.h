// New outputs, laid out as the CPU operators lay out theirs, and the copy of a result into an output.
#pragma once
#include <c10/core/MemoryFormat.h>

#include "structured/structured.h"
#include "tensor/output_donation.h"

namespace tb::ops {

inline at::Tensor empty_on(const at::Tensor &like, c10::IntArrayRef sizes, c10::ScalarType dtype) {
  return empty(sizes, {}, dtype, device_number(like));
}

inline at::Tensor empty_formatted(const at::Tensor &like, c10::IntArrayRef sizes, c10::ScalarType dtype,
                                  c10::MemoryFormat format) {
  return create_output(sizes, {}, like.options().dtype(dtype).memory_format(format));
}

// Allocates with the strides of `like` if they are dense, else with its order of dimensions, as at::empty_like does.
at::Tensor empty_preserving(const at::Tensor &like, c10::ScalarType dtype);
// Allocates with the layout that a TensorIterator chooses for operands of one shape and layout. The strides are
// contiguous or channels-last if the operands' are, whatever those are in dimensions of size 1.
at::Tensor empty_pointwise(const at::Tensor &like, c10::ScalarType dtype);
// Allocates with the layout that a TensorIterator chooses for `like` and operands of other shapes, such as numbers. It
// keeps the order of dimensions, also of those of size 1, which contiguous tensors may have anywhere.
at::Tensor empty_iterated(const at::Tensor &like, c10::ScalarType dtype);

inline const at::Tensor &value_or_undefined(const std::optional<at::Tensor> &tensor) {
  static const at::Tensor undefined;
  return tensor ? *tensor : undefined;
}

// Copies src to dst, of any strides and types. Call it on the worker.
void copy_result(at::Tensor &dst, const at::Tensor &src);

// A kernel (out, arguments...) for the worker, which copies the new tensor that `function` returns to `out`.
template <auto function>
inline constexpr auto copying = [](at::Tensor &out, auto &&...arguments) { copy_result(out, function(arguments...)); };

// The same for an output that nothing else uses yet. The result is computed in its memory where that is possible.
template <auto function> inline constexpr auto donating = [](at::Tensor &out, auto &&...arguments) {
  OutputDonation donation(out);
  donation.collect(function(arguments...));
};

// Picks one of PyTorch's overloads by its type.
template <class Function> constexpr Function *overload(Function *function) { return function; }

} // namespace tb::ops
