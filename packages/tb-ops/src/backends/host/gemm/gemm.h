// Single-precision GEMMs by the BLAS or by our microkernel, whichever trials chose for the size.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "intraop/autotuner.h"
#include "microkernels/gemm.h"
#include "microkernels/parallel.h"

namespace tb::ops::host {

using microkernels::Gemm, microkernels::Operand, microkernels::gemm_nanoseconds;

// The loop by which microkernels use the OpenMP threads of the calling thread.
extern const microkernels::ParallelLoop openmp_loop;

// The key of the choice: every property of a float GEMM, or of a batch of them, on which the BLAS may choose its
// algorithm.
struct GemmKey {
  int64_t count; // GEMMs in the batch; 0 for a single GEMM
  int64_t rows, columns, k;
  bool left_transposed, right_transposed;
  bool adds, dense; // adds to the output; the rows of the output have no gap between them
  int threads;
  auto operator<=>(const GemmKey &) const = default;
};

GemmKey key_of(const Gemm<float> &gemm, int64_t count = 0);

// Whether our microkernel computes the GEMMs of this key. `run_trial` compares it with PyTorch's way on other numbers.
bool uses_microkernel(const GemmKey &key, const std::function<Trial()> &run_trial);
// The keys that were tried, and whether our microkernel computes them.
std::vector<std::pair<GemmKey, bool>> tried_gemms();

// Computes the GEMM on as many threads as the calling thread may use.
void run_gemm(const Gemm<float> &gemm);
void run_gemm(const Gemm<double> &gemm);
// Does the same with our microkernel. The processor must support it.
void run_microkernel(const Gemm<float> &gemm);

// Returns the number of OpenMP threads that a GEMM of the calling thread may use.
int gemm_threads();

// Returns `size` numbers from -1 to 1. They depend only on `state`, which advances.
template <class T> std::vector<T> trial_numbers(int64_t size, uint32_t &state) {
  std::vector<T> made(static_cast<size_t>(size));
  for (T &number : made) number = static_cast<T>(static_cast<int32_t>(state = state * 1664525 + 1013904223) * 0x1p-31);
  return made;
}

// Runs both functions three times on an output that begins as `before`, and compares the outputs and the shortest
// times.
Trial compare(const std::vector<float> &before, const std::function<void(float *out)> &baseline,
              const std::function<void(float *out)> &candidate);

} // namespace tb::ops::host
