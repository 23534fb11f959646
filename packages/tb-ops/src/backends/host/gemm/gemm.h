// One GEMM: by the BLAS that libtorch carries, or by the microkernel if that is bit-identical and faster.
#pragma once
#include <c10/core/ScalarType.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "microkernels/gemm.h"

namespace tb::ops::host {

using microkernels::Gemm;
using microkernels::gemm_nanoseconds;
using microkernels::MatrixOperand;

// Whether there is a BLAS for this dtype.
bool has_blas(c10::ScalarType type);

// On as many threads as the calling one may use. Once a float shape was multiplied a few times, a trial on random numbers
// decides whether the microkernel computes it: it must be bit-identical to the BLAS, and faster.
template <class T> void multiply(const Gemm<T> &gemm);
template <> void multiply(const Gemm<float> &gemm);
template <> void multiply(const Gemm<double> &gemm);

// By the BLAS alone, left times right times `factor`.
template <class T> void gemm_by_blas(const Gemm<T> &gemm, T factor = 1);
// By the microkernel alone, in parts if the calling thread may use several threads.
void gemm_by_microkernel(const Gemm<float> &gemm);
int gemm_threads();

// Key of the kernel choice: every property of a float GEMM on which BLAS may dispatch.
struct GemmShape {
  int64_t count; // of a batch; 0: a single GEMM
  int64_t rows, columns, inner;
  bool left_transposed, right_transposed;
  bool adds, dense; // to what the output holds; the output's rows follow each other without a gap
  int threads;
  auto operator<=>(const GemmShape &) const = default;
};
// Of a GEMM, or of `count` in a batch.
GemmShape shape_of(const Gemm<float> &gemm, int64_t count = 0);

// Whether the microkernel computes this shape, if the processor can run it. `gains`: see KernelChoices.
bool use_microkernel(const GemmShape &shape, const std::function<bool()> &gains);
// The shapes that were tried, and whether the microkernel computes them.
std::vector<std::pair<GemmShape, bool>> tried_gemms();

} // namespace tb::ops::host
