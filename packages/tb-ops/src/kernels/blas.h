// One matrix product: by the BLAS that libtorch carries, or by our own kernel where that gives the same bits sooner.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

namespace tb {

// A matrix in memory by rows, `stride` elements from one to the next; its transpose where that is said.
template <class T> struct Factor {
  const T *data;
  int64_t stride;
  bool transposed = false;
};

// out = left right or, with `add`, out += left right. rows x inner times inner x columns.
template <class T> struct Multiplication {
  int64_t rows, columns, inner;
  Factor<T> left, right;
  T *out;
  int64_t stride; // of out
  bool add = false;

  // On as many threads as the calling one may use. Whether our kernel has the BLAS's bits, and is faster, is tried with
  // other numbers once a size has been asked for a few times.
  void run() const;
};

// Whether there is a BLAS for this type.
bool has_blas(c10::ScalarType type);

// A size that was tried, with so many threads: whether our kernel makes its products.
struct TriedProduct {
  int64_t rows, columns, inner;
  bool left_transposed, right_transposed;
  int threads;
  bool ours;
};
std::vector<TriedProduct> tried_products();

} // namespace tb
