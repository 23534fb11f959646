// Chooses between the BLAS and our microkernel.
#include "backends/host/gemm/gemm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "backends/host/cpu_kernels.h"
#include "intraop/parallel_for.h"
#include "microkernels/sgemm.h"

namespace tb::ops::host {
namespace {

Autotuner<GemmKey> &autotuner() {
  static auto &object = *new Autotuner<GemmKey>(microkernel_rule); // workers outlive static objects
  return object;
}

// Runs a GEMM of the same key on other numbers, by the BLAS and by our microkernel.
Trial try_microkernel(const Gemm<float> &like) {
  Gemm<float> gemm = like;
  // If the rows of the output have a gap, those of the trial have one too, since the gap is part of the key.
  gemm.stride = like.columns + (like.stride == like.columns ? 0 : 16);
  gemm.left.stride = like.left.transposed ? like.rows : like.k;
  gemm.right.stride = like.right.transposed ? like.k : like.columns;
  uint32_t state = 1;
  const auto left = trial_numbers<float>(like.rows * like.k, state),
             right = trial_numbers<float>(like.k * like.columns, state),
             before = trial_numbers<float>(like.rows * gemm.stride, state);
  gemm.left.data = left.data();
  gemm.right.data = right.data();
  const auto by = [&](void (*run)(const Gemm<float> &)) {
    return [&gemm, run](float *out) {
      gemm.out = out;
      run(gemm);
    };
  };
  return compare(before, by([](const Gemm<float> &g) { microkernels::blas_gemm(g); }), by(run_microkernel));
}

} // namespace

const microkernels::ParallelLoop openmp_loop([](int64_t count, int64_t grain, microkernels::ParallelLoop::Body body,
                                                const void *state) {
  parallel_for(0, count, grain, [&](int64_t begin, int64_t end) { body(state, begin, end); });
});

int gemm_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

GemmKey key_of(const Gemm<float> &gemm, int64_t count) {
  return {.count = count,
          .rows = gemm.rows,
          .columns = gemm.columns,
          .k = gemm.k,
          .left_transposed = gemm.left.transposed,
          .right_transposed = gemm.right.transposed,
          .adds = gemm.add,
          .dense = gemm.stride == gemm.columns,
          .threads = gemm_threads()};
}

bool uses_microkernel(const GemmKey &key, const std::function<Trial()> &run_trial) {
  static const bool supported = microkernels::has_sgemm();
  if (!supported) return false;
  constexpr int64_t least_work = 1 << 14, most_elements = 16'000'000; // multiplications; of an operand or the output
  const int64_t count = std::max<int64_t>(key.count, 1);
  const int64_t most = std::max({key.rows * key.k, key.k * key.columns, key.rows * key.columns});
  if (count * key.rows * key.columns * key.k < least_work || count * most > most_elements) return false;
  return use_microkernel(autotuner(), key, run_trial);
}

std::vector<std::pair<GemmKey, bool>> tried_gemms() { return autotuner().report(); }

Trial compare(const std::vector<float> &before, const std::function<void(float *out)> &baseline,
              const std::function<void(float *out)> &candidate) {
  std::vector<float> made[2];
  int64_t shortest[2] = {INT64_MAX, INT64_MAX};
  for (int which = 0; which < 2; which++)
    for (int i = 0; i < 3; i++) {
      made[which] = before;
      const int64_t started = autotuner_clock();
      (which == 0 ? baseline : candidate)(made[which].data());
      shortest[which] = std::min(shortest[which], autotuner_clock() - started);
    }
  return {std::memcmp(made[0].data(), made[1].data(), before.size() * sizeof(float)) == 0, shortest[0], shortest[1]};
}

// Divides the longer side of the output among the threads. Each thread packs the operand of the shorter side for
// itself.
void run_microkernel(const Gemm<float> &gemm) {
  constexpr int64_t least_part = 64, line = 16;
  const bool by_rows = gemm.rows > gemm.columns;
  const int64_t extent = by_rows ? gemm.rows : gemm.columns;
  const int64_t parts = std::clamp<int64_t>(extent / least_part, 1, gemm_threads());
  if (parts == 1) return microkernels::sgemm(gemm);
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) {
      const int64_t begin = begin_of_part(i, parts, extent, line);
      microkernels::sgemm(gemm.part(by_rows, begin, begin_of_part(i + 1, parts, extent, line) - begin));
    }
  });
}

void run_gemm(const Gemm<double> &gemm) { microkernels::blas_gemm(gemm); }

void run_gemm(const Gemm<float> &gemm) {
  if (uses_microkernel(key_of(gemm), [&] { return try_microkernel(gemm); }))
    run_microkernel(gemm);
  else
    microkernels::blas_gemm(gemm);
}

} // namespace tb::ops::host
