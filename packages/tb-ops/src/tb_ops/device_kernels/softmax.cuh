// Softmax and its logarithm along one dimension. A block computes each row.
#pragma once
#include "block.cuh"

namespace tb::kernels {

__device__ inline Long rows_of(const RowArguments &a) { return a.outer * a.inner; }
// Returns the index of a row's first element. The elements of a row are a.inner apart.
__device__ inline Long row_start(const RowArguments &a, Long row) {
  return row / a.inner * a.size * a.inner + row % a.inner;
}

template <class Stored, class Result, bool logarithm> __device__ inline void softmax(const RowArguments &a) {
  using Number = Math<Stored>;
  for (Long row = blockIdx.x; row < rows_of(a); row += gridDim.x) {
    const Long start = row_start(a, row);
    Number highest = Limits<Number>::lowest();
    for (Long i = threadIdx.x; i < a.size; i += blockDim.x) {
      const Number x = at<Stored>(a.first.data, start + i * a.inner);
      if (is_nan(x) || highest < x) highest = x;
    }
    highest = maximum_across_block(highest);
    Sum<Stored> total = 0;
    for (Long i = threadIdx.x; i < a.size; i += blockDim.x)
      total += number::exp(at<Stored>(a.first.data, start + i * a.inner) - highest);
    total = sum_across_block(total);
    const Number shift = logarithm ? static_cast<Number>(number::log(total)) : Number(0);
    for (Long i = threadIdx.x; i < a.size; i += blockDim.x) {
      const Number x = at<Stored>(a.first.data, start + i * a.inner) - highest;
      put<Result>(a.result.data, start + i * a.inner,
                  logarithm ? x - shift : number::exp(x) / static_cast<Number>(total));
    }
  }
}

// a.first is the gradient, and a.second the output of the forward pass.
template <class Stored, class Result, bool logarithm> __device__ inline void softmax_backward(const RowArguments &a) {
  using Number = Math<Stored>;
  for (Long row = blockIdx.x; row < rows_of(a); row += gridDim.x) {
    const Long start = row_start(a, row);
    Sum<Stored> total = 0;
    for (Long i = threadIdx.x; i < a.size; i += blockDim.x) {
      const Number grad = at<Stored>(a.first.data, start + i * a.inner);
      total += logarithm ? grad : grad * at<Stored>(a.second.data, start + i * a.inner);
    }
    const Number all = static_cast<Number>(sum_across_block(total));
    for (Long i = threadIdx.x; i < a.size; i += blockDim.x) {
      const Number grad = at<Stored>(a.first.data, start + i * a.inner);
      const Number out = at<Stored>(a.second.data, start + i * a.inner);
      put<Result>(a.result.data, start + i * a.inner,
                  logarithm ? grad - number::exp(out) * all : (grad - all) * out);
    }
  }
}

} // namespace tb::kernels
