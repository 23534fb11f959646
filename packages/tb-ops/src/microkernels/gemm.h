// A matrix product (GEMM) as data, and its computation by the BLAS library that the process carries.
#pragma once
#include <cstdint>

namespace tb::ops::microkernels {

// A matrix stored by rows, with `stride` elements from one row to the next; its transpose if `transposed`.
template <class T> struct Operand {
  const T *data;
  int64_t stride;
  bool transposed = false;
};

// out = left right or, with `add`, out += left right, where left is rows x k and right is k x columns.
// `out` is stored by rows, with `stride` elements from one row to the next.
template <class T> struct Gemm {
  int64_t rows, columns, k;
  Operand<T> left, right;
  T *out;
  int64_t stride;
  bool add = false;

  // The GEMM of `count` rows of the output, or of its columns, from `begin` on.
  Gemm part(bool by_rows, int64_t begin, int64_t count) const {
    Gemm p = *this;
    if (by_rows) {
      p.rows = count;
      p.left.data += begin * (left.transposed ? 1 : left.stride);
      p.out += begin * stride;
    } else {
      p.columns = count;
      p.right.data += begin * (right.transposed ? right.stride : 1);
      p.out += begin;
    }
    return p;
  }
};

// An estimate of the nanoseconds that one thread takes: 100 floating-point operations per nanosecond.
inline double gemm_nanoseconds(int64_t rows, int64_t columns, int64_t k) {
  return .02 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(k);
}

// Whether the process carries a BLAS with this element type (float or double).
template <class T> bool has_blas();

// Computes the GEMM by that BLAS, with `alpha` as the factor of the product. The BLAS may use several threads.
template <class T> void blas_gemm(const Gemm<T> &gemm, T alpha = 1);

} // namespace tb::ops::microkernels
