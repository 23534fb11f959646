// Scaled dot product attention in single precision with AVX-512, in the order of operations of PyTorch's CPU flash kernels.
//
// The results are bit-identical to PyTorch's wherever sgemm() is bit-identical to its BLAS. PyTorch calls the BLAS for
// each block of queries; these kernels pack keys and values once per head.
#pragma once
#include <compare>
#include <cstdint>

#include "microkernels/parallel.h"

namespace tb::ops::microkernels {

// The problem size: everything that the order of operations depends on.
struct AttentionSize {
  static constexpr int64_t block_keys = 512; // the keys that PyTorch processes together

  int64_t batch, heads, queries, keys, width; // width: elements of a head
  bool causal;                                // query i attends to the keys 0 to i
  bool backward;
  auto operator<=>(const AttentionSize &) const = default;

  bool is_supported() const;  // whether these kernels compute it on this processor
  double nanoseconds() const; // an estimate for one thread
};

// A tensor of batch x heads x positions x width whose last dimension is dense; the members are the strides of the others.
template <class T> struct HeadVectors {
  T *data;
  int64_t batch, head, position;

  HeadVectors<T> of(int64_t b, int64_t h) const { return {data + b * batch + h * head, 0, 0, position}; }
  T *at(int64_t i) const { return data + i * position; } // after of()
};

struct Attention {
  AttentionSize size;
  float scale;
  HeadVectors<const float> query, key, value;

  // Writes the output and, for each query, the logarithm of the sum of exponentials (width 1). Heads are shared by `loop`.
  // Returns false if a score is NaN: PyTorch's maximum then has rules of its own, and what was written is not the result.
  bool forward(const ParallelLoop &loop, const HeadVectors<float> &out, const HeadVectors<float> &logsumexp) const;
  // Writes the gradients of query, key and value from the results of forward() and the gradient of `out`.
  void backward(const ParallelLoop &loop, const HeadVectors<const float> &out,
                const HeadVectors<const float> &logsumexp, const HeadVectors<const float> &grad,
                const HeadVectors<float> &grad_query, const HeadVectors<float> &grad_key,
                const HeadVectors<float> &grad_value) const;
};

} // namespace tb::ops::microkernels
