// Layer normalisation of contiguous rows, forward and backward.
#pragma once
#include "block.cuh"

namespace tb::kernels {

// Moments is the type of mean and rstd, which is Stored or wider.
template <class Stored, class Moments> __device__ inline void layer_norm(const LayerNormArguments &a) {
  using Number = Math<Stored>;
  for (Long row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const Long start = row * a.size;
    Sum<Stored> total = 0;
    for (Long i = threadIdx.x; i < a.size; i += blockDim.x) total += at<Stored>(a.input, start + i);
    const Sum<Stored> mean = sum_across_block(total) / static_cast<Sum<Stored>>(a.size);
    Sum<Stored> squares = 0;
    for (Long i = threadIdx.x; i < a.size; i += blockDim.x) {
      const Sum<Stored> apart = at<Stored>(a.input, start + i) - mean;
      squares += apart * apart;
    }
    const Sum<Stored> variance = sum_across_block(squares) / static_cast<Sum<Stored>>(a.size);
    const Number rstd = static_cast<Number>(1 / number::sqrt(variance + number_of<Sum<Stored>>(a.epsilon)));
    if (threadIdx.x == 0) {
      put<Moments>(a.mean, row, mean);
      put<Moments>(a.rstd, row, rstd);
    }
    for (Long i = threadIdx.x; i < a.size; i += blockDim.x) {
      const Number scale = a.weight ? at<Stored>(a.weight, i) : Number(1);
      const Number shift = a.bias ? at<Stored>(a.bias, i) : Number(0);
      put<Stored>(a.output, start + i,
                  (at<Stored>(a.input, start + i) - static_cast<Number>(mean)) * rstd * scale + shift);
    }
  }
}

// Computes the gradient of the input, into a.output.
template <class Stored, class Moments> __device__ inline void layer_norm_backward(const LayerNormArguments &a) {
  using Number = Math<Stored>;
  for (Long row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const Long start = row * a.size;
    const Number mean = at<Moments>(a.mean, row), rstd = at<Moments>(a.rstd, row);
    Sum<Stored> sum = 0, product = 0;
    for (Long i = threadIdx.x; i < a.size; i += blockDim.x) {
      const Number grad = at<Stored>(a.grad, start + i) * (a.weight ? at<Stored>(a.weight, i) : Number(1));
      sum += grad;
      product += grad * (at<Stored>(a.input, start + i) - mean) * rstd;
    }
    const Number mean_sum = static_cast<Number>(sum_across_block(sum) / static_cast<Sum<Stored>>(a.size));
    const Number mean_product = static_cast<Number>(sum_across_block(product) / static_cast<Sum<Stored>>(a.size));
    for (Long i = threadIdx.x; i < a.size; i += blockDim.x) {
      const Number grad = at<Stored>(a.grad, start + i) * (a.weight ? at<Stored>(a.weight, i) : Number(1));
      const Number normed = (at<Stored>(a.input, start + i) - mean) * rstd;
      put<Stored>(a.output, start + i, (grad - mean_sum - normed * mean_product) * rstd);
    }
  }
}

// Computes the gradients of weight and bias. A thread computes each column.
template <class Stored, class Moments> __device__ inline void layer_norm_columns(const LayerNormArguments &a) {
  for (Long i = first_element(); i < a.size; i += all_threads()) {
    Sum<Stored> weight = 0, bias = 0;
    for (Long row = 0; row < a.rows; row++) {
      const Math<Stored> grad = at<Stored>(a.grad, row * a.size + i);
      weight += grad * (at<Stored>(a.input, row * a.size + i) - at<Moments>(a.mean, row)) * at<Moments>(a.rstd, row);
      bias += grad;
    }
    if (a.grad_weight) put<Stored>(a.grad_weight, i, weight);
    if (a.grad_bias) put<Stored>(a.grad_bias, i, bias);
  }
}

} // namespace tb::kernels
