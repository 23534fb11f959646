// Calls the BLAS or the microkernel, and tries which is better.
#include "backends/host/gemm/gemm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <type_traits>

#include "backends/host/gemm/kernel_choices.h"
#include "intraop/parallel_for.h"
#include "microkernels/sgemm.h"

namespace tb::ops::host {
template <class T> using BlasGemm = void(const char *, const char *, const int *, const int *, const int *, const T *,
                                         const T *, const int *, const T *, const int *, const T *, T *, const int *);
} // namespace tb::ops::host

// Of the BLAS that libtorch carries; null if it carries none.
extern "C" {
__attribute__((weak)) tb::ops::host::BlasGemm<float> sgemm_;
__attribute__((weak)) tb::ops::host::BlasGemm<double> dgemm_;
}

namespace tb::ops::host {

template <class T> void gemm_by_blas(const Gemm<T> &gemm, T factor) {
  // By rows, left times right, is by columns, as BLAS has it, right times left.
  const char transpose_b = gemm.right.transposed ? 't' : 'n', transpose_a = gemm.left.transposed ? 't' : 'n';
  const int m = static_cast<int>(gemm.columns), n = static_cast<int>(gemm.rows), k = static_cast<int>(gemm.inner),
            stride_b = static_cast<int>(gemm.right.stride), stride_a = static_cast<int>(gemm.left.stride),
            stride = static_cast<int>(gemm.stride);
  const T added = gemm.add;
  BlasGemm<T> *blas;
  if constexpr (std::is_same_v<T, float>)
    blas = sgemm_;
  else
    blas = dgemm_;
  blas(&transpose_b, &transpose_a, &m, &n, &k, &factor, gemm.right.data, &stride_b, gemm.left.data, &stride_a, &added,
       gemm.out, &stride);
}

template void gemm_by_blas(const Gemm<float> &, float);
template void gemm_by_blas(const Gemm<double> &, double);

namespace {

KernelChoices<GemmShape> &choices() {
  static auto &object = *new KernelChoices<GemmShape>; // workers outlive static objects
  return object;
}

// Tries a GEMM of the same shape, of other numbers.
bool gains(const Gemm<float> &like) {
  Gemm<float> gemm = like;
  // An output whose rows are parts of longer ones stays one.
  gemm.stride = like.columns + (like.stride == like.columns ? 0 : 16);
  gemm.left.stride = like.left.transposed ? like.rows : like.inner;
  gemm.right.stride = like.right.transposed ? like.inner : like.columns;
  uint32_t state = 1;
  const auto left = trial_numbers<float>(like.rows * like.inner, state),
             right = trial_numbers<float>(like.inner * like.columns, state),
             before = trial_numbers<float>(like.rows * gemm.stride, state);
  gemm.left.data = left.data();
  gemm.right.data = right.data();
  const auto outcome = [&](void (*multiply)(const Gemm<float> &)) {
    return time_trial(before, [&](float *out) {
      gemm.out = out;
      multiply(gemm);
    });
  };
  const TrialOutcome blas = outcome([](const auto &p) { gemm_by_blas(p); });
  return outcome(gemm_by_microkernel).gains(blas);
}

} // namespace

int gemm_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

GemmShape shape_of(const Gemm<float> &gemm, int64_t count) {
  return {.count = count,
          .rows = gemm.rows,
          .columns = gemm.columns,
          .inner = gemm.inner,
          .left_transposed = gemm.left.transposed,
          .right_transposed = gemm.right.transposed,
          .adds = gemm.add,
          .dense = gemm.stride == gemm.columns,
          .threads = gemm_threads()};
}

// In parts of the longer side, since each thread packs the operand of the shorter side for itself.
void gemm_by_microkernel(const Gemm<float> &gemm) {
  constexpr int64_t least_of_part = 64;
  const bool by_rows = gemm.rows > gemm.columns;
  const int64_t extent = by_rows ? gemm.rows : gemm.columns;
  const int64_t parts = std::clamp<int64_t>(extent / least_of_part, 1, gemm_threads());
  const auto part = [&](int64_t i) {
    constexpr int64_t line = 16;
    const int64_t begin = begin_of_part(i, parts, extent, line);
    microkernels::sgemm(gemm.part(by_rows, begin, begin_of_part(i + 1, parts, extent, line) - begin));
  };
  if (parts == 1) return microkernels::sgemm(gemm);
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) part(i);
  });
}

bool has_blas(c10::ScalarType type) { return (type == c10::kDouble && dgemm_) || (type == c10::kFloat && sgemm_); }

bool use_microkernel(const GemmShape &shape, const std::function<bool()> &gains) {
  static const bool possible = microkernels::has_sgemm();
  if (!possible) return false;
  constexpr int64_t least = 1 << 14, most_elements = 16'000'000; // of a GEMM that is tried; of an operand or output
  const int64_t count = std::max<int64_t>(shape.count, 1);
  const int64_t most = std::max({shape.rows * shape.inner, shape.inner * shape.columns, shape.rows * shape.columns});
  if (count * shape.rows * shape.columns * shape.inner < least || count * most > most_elements) return false;
  return choices().ours(shape, gains);
}

std::vector<std::pair<GemmShape, bool>> tried_gemms() { return choices().tried(); }

template <> void multiply(const Gemm<double> &gemm) { gemm_by_blas(gemm); }

template <> void multiply(const Gemm<float> &gemm) {
  if (use_microkernel(shape_of(gemm), [&] { return gains(gemm); }))
    gemm_by_microkernel(gemm);
  else
    gemm_by_blas(gemm);
}

} // namespace tb::ops::host
