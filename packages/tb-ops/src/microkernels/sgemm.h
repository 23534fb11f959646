// A float GEMM with AVX-512. It adds up in the order of MKL without AVX-512: the terms of an element by fused multiply-adds one
// after the other, 192 at a time, and then the sums of these.
//
// MKL uses vectors half as long on processors that are not Intel's: this takes less than half its time on an AMD EPYC (Zen 5).
#pragma once
#include <memory>

#include "microkernels/gemm.h"

namespace tb::ops::microkernels {

bool has_sgemm(); // whether this processor can
void sgemm(const Gemm<float> &product);

// Aligned memory that grows, and keeps nothing when it does.
class Panels {
public:
  float *of(int64_t floats);

private:
  struct Delete {
    void operator()(float *memory) const;
  };
  std::unique_ptr<float[], Delete> memory_;
  int64_t size_ = 0;
};

// Matrices of equal sizes, `step` elements from one to the next.
template <class T> struct Matrices {
  T *data;
  int64_t stride, step = 0;
};

// The right operand of many GEMMs, packed once. Its results are bit-identical to sgemm's.
class PackedOperand {
public:
  // inner x columns. pack() has to be called for all its panels.
  void begin(const MatrixOperand<float> &factor, int64_t inner, int64_t columns);
  int64_t panels() const;
  void pack(int64_t first_panel, int64_t last_panel);
  void scale(float by); // all of it, as the BLAS does with its alpha
  // out[i] = left[i] operand or, with `add`, out[i] += left[i] operand, for each i below `count`; of `rows` rows each.
  void multiply(const Matrices<const float> &left, int64_t count, int64_t rows, const Matrices<float> &out,
                bool add) const {
    multiply({left.data, left.stride}, left.step, count, rows, inner_, columns_, out, add);
  }
  // The same for one, of the operand's first `terms` rows and `columns` columns: as if what follows were zeros.
  void multiply_beginning(const MatrixOperand<float> &left, int64_t rows, int64_t terms, int64_t columns,
                          const Matrices<float> &out, bool add) const {
    multiply(left, 0, 1, rows, terms, columns, out, add);
  }

private:
  void multiply(const MatrixOperand<float> &left, int64_t step, int64_t count, int64_t rows, int64_t terms,
                int64_t columns, const Matrices<float> &out, bool add) const;

  MatrixOperand<float> factor_{};
  int64_t inner_ = 0, columns_ = 0;
  Panels memory_;
  float *packed_ = nullptr;
};

} // namespace tb::ops::microkernels
