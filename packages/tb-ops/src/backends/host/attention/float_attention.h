// Attention of float heads with AVX-512, in the order in which PyTorch's CPU kernels compute. It is bit-identical to them if
// the microkernel's GEMMs are bit-identical to PyTorch's BLAS, which a trial decides, as for GEMMs (gemm/kernel_choices.h).
//
// PyTorch calls the BLAS again for each block of queries. Here keys and values are packed once for a head, and the GEMMs of a
// block run from registers.
#pragma once
#include <compare>
#include <cstdint>

namespace tb::ops::host {

// The properties of a call on which the kernels' order of operations depends.
struct AttentionSize {
  static constexpr int64_t block_keys = 512; // of PyTorch's blocks

  int64_t batch, heads, queries, keys, width; // of a head
  bool causal;                                // query i sees the keys up to i
  bool backward;
  auto operator<=>(const AttentionSize &) const = default;

  bool is_supported() const;  // by these kernels, on this processor
  double nanoseconds() const; // on one thread, about
};

// batch x heads x positions x width, of which the last are dense: elements from one to the next of the others.
template <class T> struct HeadVectors {
  T *data;
  int64_t batch, head, position;

  HeadVectors<T> of(int64_t b, int64_t h) const { return {data + b * batch + h * head, 0, 0, position}; }
  T *at(int64_t i) const { return data + i * position; }
};

struct Attention {
  AttentionSize size;
  float scale;
  HeadVectors<const float> query, key, value;

  // logsumexp: one element for each query. On as many threads as the calling one may use. false: some score is a NaN, which
  // PyTorch's maximum treats in its own way; what was written is not the result.
  bool forward(const HeadVectors<float> &out, const HeadVectors<float> &logsumexp) const;
  // What forward() gave and the gradient of `out`, to all gradients of the factors.
  void backward(const HeadVectors<const float> &out, const HeadVectors<const float> &logsumexp,
                const HeadVectors<const float> &grad, const HeadVectors<float> &grad_query,
                const HeadVectors<float> &grad_key, const HeadVectors<float> &grad_value) const;
};

} // namespace tb::ops::host
