// Negative log-likelihood of class indices, forward and backward.
#pragma once
#include "block.cuh"

namespace tb::kernels {

// Returns the row's target class, or -1 if the target is ignored or is no class.
__device__ inline Long target_class(const LossArguments &a, Long row) {
  const Long target = a.target[row];
  if (target == a.ignored) return -1;
  const bool good = target >= 0 && target < a.classes;
  require(good, "nll_loss: a target is no class: it is negative or not below the number of classes");
  return good ? target : -1;
}
template <class Stored> __device__ inline Math<Stored> class_weight(const LossArguments &a, Long target) {
  return a.weight ? at<Stored>(a.weight, target) : Math<Stored>(1);
}

template <class Stored> __device__ inline void nll_rows(const LossArguments &a) {
  for (Long row = first_element(); row < a.rows; row += all_threads()) {
    const Long target = target_class(a, row);
    put<Stored>(a.output, row,
                target < 0 ? Math<Stored>(0)
                           : -at<Stored>(a.input, row * a.classes + target) * class_weight<Stored>(a, target));
  }
}

// Computes the sum or the mean, and the weight of all targets, in one block.
template <class Stored> __device__ inline void nll_all(const LossArguments &a) {
  Sum<Stored> total = 0, weight = 0;
  for (Long row = threadIdx.x; row < a.rows; row += blockDim.x) {
    const Long target = target_class(a, row);
    if (target < 0) continue;
    const Math<Stored> one = class_weight<Stored>(a, target);
    total -= at<Stored>(a.input, row * a.classes + target) * one;
    weight += one;
  }
  total = sum_across_block(total);
  weight = sum_across_block(weight);
  if (threadIdx.x > 0) return;
  put<Stored>(a.output, 0, a.reduction == 1 ? total / weight : total);
  put<Stored>(a.total_weight, 0, weight);
}

// Writes one element of each row. The output is zeroed before.
template <class Stored> __device__ inline void nll_backward(const LossArguments &a) {
  for (Long row = first_element(); row < a.rows; row += all_threads()) {
    const Long target = target_class(a, row);
    if (target < 0) continue;
    const Math<Stored> grad = at<Stored>(a.input, a.reduction == 0 ? row * a.grad_stride : 0);
    const Math<Stored> share = a.reduction == 1 ? grad / at<Stored>(a.total_weight, 0) : grad;
    put<Stored>(a.output, row * a.classes + target, -share * class_weight<Stored>(a, target));
  }
}

} // namespace tb::kernels
