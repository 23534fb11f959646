// GEMMs of matrices that at::mm would hand to the BLAS unchanged, without the work of at::mm around the call. The
// results are bit-identical to those of at::mm.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "backends/host/gemm/gemm.h"

namespace tb::ops::host {

// Whether ParallelGemm gives the results of at::mm for this type with the present settings. It does so for float if no
// reduced precision is allowed, and for double, in builds of PyTorch with a BLAS.
bool supports_gemm(c10::ScalarType type);

// Computes out = left right, and adds `bias` to each row unless it is null. The operands are rows x k and k x columns,
// and each size is at least 2; `out` is contiguous.
template <class T> struct ParallelGemm {
  int64_t rows, columns, k;
  Operand<T> left, right;
  T *out;
  const T *bias = nullptr;

  double nanoseconds() const { return gemm_nanoseconds(rows, columns, k); } // on one thread
  // Returns the most parts, of rows or of columns, into which the GEMM can be divided.
  int64_t most_parts() const { return std::max(rows, columns) / step; }
  // Whether the parts are bit-identical to the whole, which depends on how the BLAS divides GEMMs of these sizes. The
  // first call tries it with other numbers. GEMMs that are too large to try count as not identical.
  bool parts_are_identical(int64_t parts) const;
  // Computes part i of `parts`.
  void run(int64_t i = 0, int64_t parts = 1) const;
  // Computes all parts, divided among threads if that is faster and bit-identical.
  void run_shared() const;

private:
  static constexpr int64_t step = sizeof(T) == 4 ? 16 : 24; // a multiple of the tiles of BLAS kernels
  bool try_parts(int64_t parts) const;
};

} // namespace tb::ops::host
