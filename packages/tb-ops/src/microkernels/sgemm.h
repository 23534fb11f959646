// Single-precision GEMM with AVX-512, in the order of additions of MKL where MKL uses no AVX-512.
//
// Each element of the output is a sum of fused multiply-adds, one term after the other in blocks of 192 terms, and the
// blocks are then added. On processors of other makers MKL uses vectors of half the length: on an AMD EPYC (Zen 5) this
// kernel takes less than half of MKL's time (`nox -s bench`).
#pragma once
#include <cstdint>
#include <memory>

#include "microkernels/gemm.h"

namespace tb::ops::microkernels {

// Whether this processor has AVX-512. The other functions of this header require it.
bool has_sgemm();

// Computes the GEMM on the calling thread.
void sgemm(const Gemm<float> &gemm);

// Memory aligned to a cache line. It grows on demand and does not keep its contents when it does.
class AlignedBuffer {
public:
  // Returns at least `floats` elements, valid until the next call.
  float *reserve(int64_t floats);

private:
  struct Delete {
    void operator()(float *memory) const;
  };
  std::unique_ptr<float[], Delete> memory_;
  int64_t size_ = 0;
};

// Matrices of equal sizes: `stride` elements from one row to the next, `step` from one matrix to the next.
template <class T> struct Matrices {
  T *data;
  int64_t stride, step = 0;
};

// The right operand of many GEMMs, packed once into panels of columns. The results are bit-identical to those of sgemm().
class PackedOperand {
public:
  // Prepares the packing of a k x columns operand; pack() must then be called for every panel.
  void begin(const Operand<float> &operand, int64_t k, int64_t columns);
  int64_t panels() const;
  // Packs the panels [first, last). Different threads may pack different panels.
  void pack(int64_t first, int64_t last);
  // Multiplies all packed elements by `by`, as BLAS does with its alpha.
  void scale(float by);

  // out[i] = left[i] operand or, with `add`, out[i] += left[i] operand, for each i below `count`. Each left[i] has `rows`
  // rows.
  void multiply(const Matrices<const float> &left, int64_t count, int64_t rows, const Matrices<float> &out,
                bool add) const {
    multiply({left.data, left.stride}, left.step, count, rows, k_, columns_, out, add);
  }
  // The same for one left operand and for the first `terms` rows and `columns` columns of the packed operand.
  void multiply_leading(const Operand<float> &left, int64_t rows, int64_t terms, int64_t columns,
                        const Matrices<float> &out, bool add) const {
    multiply(left, 0, 1, rows, terms, columns, out, add);
  }

private:
  void multiply(const Operand<float> &left, int64_t step, int64_t count, int64_t rows, int64_t terms, int64_t columns,
                const Matrices<float> &out, bool add) const;

  Operand<float> operand_{};
  int64_t k_ = 0, columns_ = 0;
  AlignedBuffer memory_;
  float *packed_ = nullptr;
};

} // namespace tb::ops::microkernels
