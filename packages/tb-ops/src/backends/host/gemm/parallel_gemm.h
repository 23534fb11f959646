// GEMMs by PyTorch's own BLAS, called as at::mm calls it: its results, bit for bit, without the work that at::mm does around it.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "backends/host/gemm/gemm.h"

namespace tb::ops::host {

// Whether ParallelGemm computes what at::mm does for this dtype with the present settings: float if no reduced precision is
// allowed, and double, in builds of PyTorch that carry a BLAS.
bool supports_gemm(c10::ScalarType type);

// out = left right, with `bias`, unless null, added to each row. rows x inner times inner x columns, each at least 2;
// `out` is contiguous.
template <class T> struct ParallelGemm {
  int64_t rows, columns, inner;
  MatrixOperand<T> left, right;
  T *out;
  const T *bias = nullptr;

  double nanoseconds() const { return gemm_nanoseconds(rows, columns, inner); } // on one thread
  // Into how many parts it can be cut, of rows or of columns.
  int64_t most_parts() const { return std::max(rows, columns) / step; }
  // Whether those parts are bit-identical to the whole, which depends on how the BLAS itself cuts GEMMs of this shape. It is
  // tried once with other numbers; shapes that are too large to try count as not identical.
  bool keeps_bits(int64_t parts) const;
  // Part i of `parts`.
  void run(int64_t i = 0, int64_t parts = 1) const;
  // In parts, each by a thread, if that pays and is bit-identical.
  void run_shared() const;

private:
  static constexpr int64_t step = sizeof(T) == 4 ? 16 : 24; // what BLAS kernels compute at once, or a multiple
  bool try_parts(int64_t parts) const;
};

} // namespace tb::ops::host
