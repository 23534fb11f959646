// Matrix products of PyTorch's own BLAS, called as at::mm calls it: its bits, without what at::mm does around it.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "backends/host/gemm/gemm.h"

namespace tb {

// Whether Product gives what at::mm does for this type with the present settings: float where no reduced precision is
// allowed, and double, in builds of PyTorch that carry a BLAS.
bool multiplies(c10::ScalarType type);

// out = left right, with `bias`, unless null, added to each row. rows x inner times inner x columns, each at least 2;
// `out` is contiguous.
template <class T> struct Product {
  int64_t rows, columns, inner;
  Factor<T> left, right;
  T *out;
  const T *bias = nullptr;

  double nanoseconds() const { return product_nanoseconds(rows, columns, inner); } // on one thread
  // Into how many parts it can be cut, of rows or of columns.
  int64_t most_parts() const { return std::max(rows, columns) / step; }
  // Whether those parts have the bits of the whole, which depends on how the BLAS itself cuts products of these sizes: it
  // is tried once with other numbers. Products too large to try count as if they had not.
  bool keeps_bits(int64_t parts) const;
  // Part i of `parts`.
  void run(int64_t i = 0, int64_t parts = 1) const;
  // In parts, each by a thread, where that pays and keeps the bits.
  void run_shared() const;

private:
  static constexpr int64_t step = sizeof(T) == 4 ? 16 : 24; // what BLAS kernels compute at once, or a multiple
  bool try_parts(int64_t parts) const;
};

// out = left right, or out += left right, of matrices or batches, by our kernel alone; false: this processor cannot.
bool run_sgemm(const at::Tensor &left, const at::Tensor &right, at::Tensor out, bool add);

} // namespace tb
