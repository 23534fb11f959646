// The operands of a matrix multiplication (GEMM), in plain memory.
#pragma once
#include <cstdint>

namespace tb::ops::microkernels {

// A matrix in memory by rows, `stride` elements from one to the next; its transpose if `transposed`.
template <class T> struct MatrixOperand {
  const T *data;
  int64_t stride;
  bool transposed = false;
};

// About the nanoseconds that one thread takes: some 100 operations each.
inline double gemm_nanoseconds(int64_t rows, int64_t columns, int64_t inner) {
  return .02 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(inner);
}

// out = left right or, with `add`, out += left right. rows x inner times inner x columns.
template <class T> struct Gemm {
  int64_t rows, columns, inner;
  MatrixOperand<T> left, right;
  T *out;
  int64_t stride; // of out
  bool add = false;

  // `count` rows, or columns, from `begin` on.
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

} // namespace tb::ops::microkernels
