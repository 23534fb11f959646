// Views of tensors by rows along one dimension, for kernels that take contiguous rows.
#pragma once
#include <ATen/WrapDimUtils.h>

#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"

namespace tb::ops::jit {

// Returns the tensor with the dimension last. A tensor without dimensions gets one.
inline at::Tensor with_last(const at::Tensor &tensor, int64_t dim) {
  return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor.transpose(at::maybe_wrap_dim(dim, tensor.dim()), -1);
}

// Runs work(rows) on a contiguous tensor that has the dimension last, and whose elements are or become those of `out`.
template <class Work> void with_rows(const at::Tensor &out, int64_t dim, const Work &work) {
  with_contiguous(with_last(out, dim), work);
}

// Numbers of elements before, along and after a dimension.
struct Extents {
  int64_t outer = 1, size = 1, inner = 1;
};
inline Extents extents_along(const at::Tensor &tensor, int64_t dim) {
  Extents extents;
  const int64_t along = tensor.dim() ? at::maybe_wrap_dim(dim, tensor.dim()) : 0;
  for (int64_t d = 0; d < tensor.dim(); d++)
    (d < along ? extents.outer : d == along ? extents.size : extents.inner) *= tensor.size(d);
  return extents;
}

} // namespace tb::ops::jit
