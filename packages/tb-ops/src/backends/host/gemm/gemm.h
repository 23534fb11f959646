// One matrix product: by the BLAS that libtorch carries, or by our own kernel where that gives the same bits sooner.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>

#include "backends/host/gemm/kernel_choices.h"

namespace tb {

// A matrix in memory by rows, `stride` elements from one to the next; its transpose where that is said.
template <class T> struct Factor {
  const T *data;
  int64_t stride;
  bool transposed = false;
};

// About how long one thread takes: some 100 operations each.
inline double product_nanoseconds(int64_t rows, int64_t columns, int64_t inner) {
  return .02 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(inner);
}

// out = left right or, with `add`, out += left right. rows x inner times inner x columns.
template <class T> struct Multiplication {
  int64_t rows, columns, inner;
  Factor<T> left, right;
  T *out;
  int64_t stride; // of out
  bool add = false;

  // `count` rows, or columns, from `begin` on.
  Multiplication part(bool by_rows, int64_t begin, int64_t count) const {
    Multiplication p = *this;
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

  // On as many threads as the calling one may use. Whether our kernel has the BLAS's bits, and is faster, is tried with
  // other numbers once a size has been asked for a few times.
  void run() const;
};

// Whether there is a BLAS for this type.
bool has_blas(c10::ScalarType type);

// By the BLAS alone, left times right times `factor`.
template <class T> void multiply_by_blas(const Multiplication<T> &product, T factor = 1);
// By our kernel alone, in parts where the calling thread may use several threads.
void multiply_by_us(const Multiplication<float> &product);
int product_threads();

// What is known of a product, or of `count` in a batch, before its numbers are.
ProductSize size_of(const Multiplication<float> &product, int64_t count = 0);

} // namespace tb
