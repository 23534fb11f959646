// Divides GEMMs, and tries whether the parts are bit-identical to the whole.
#include "backends/host/gemm/parallel_gemm.h"

#include <ATen/Context.h>

#include <array>
#include <vector>

#include "intraop/thread_policy.h"

namespace tb::ops::host {

bool supports_gemm(c10::ScalarType type) {
  if (type == c10::kDouble) return microkernels::has_blas<double>();
  if (type != c10::kFloat || !microkernels::has_blas<float>()) return false;
  const at::Float32Precision precision =
      at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
  return precision != at::Float32Precision::BF16 && precision != at::Float32Precision::TF32;
}

template <class T> void ParallelGemm<T>::run(int64_t i, int64_t parts) const {
  const bool by_rows = rows >= columns;
  const int64_t extent = by_rows ? rows : columns;
  const int64_t begin = begin_of_part(i, parts, extent, step), end = begin_of_part(i + 1, parts, extent, step);
  const auto part =
      Gemm<T>{rows, columns, k, left, right, out, columns, bias != nullptr}.part(by_rows, begin, end - begin);
  if (bias)
    for (int64_t row = 0; row < part.rows; row++)
      std::copy_n(by_rows ? bias : bias + begin, part.columns, part.out + row * columns);
  run_gemm(part);
}

template <class T> void ParallelGemm<T>::run_shared() const {
  const int64_t parts = intraop.parts(most_parts(), nanoseconds());
  intraop.share(parts_are_identical(parts) ? parts : 1, [this](int64_t i, int64_t count) { run(i, count); });
}

template <class T> bool ParallelGemm<T>::parts_are_identical(int64_t parts) const {
  if (parts == 1) return true;
  using Key = std::array<int64_t, 7>;
  static Autotuner<Key> autotuner({.warmup = 0, .trials = 1, .must_be_faster = false}, SIZE_MAX);
  return autotuner.use_candidate(Key{rows, columns, k, parts, left.transposed, right.transposed, bias != nullptr},
                                 [&] { return Trial{try_parts(parts), 0, 0}; });
}

template <class T> bool ParallelGemm<T>::try_parts(int64_t parts) const {
  constexpr int64_t most_elements = 4'000'000;
  const int64_t sizes[] = {rows * k, k * columns, columns, rows * columns};
  if (std::ranges::any_of(sizes, [](int64_t size) { return size > most_elements; })) return false;
  const PartOfKernel on_one_thread;
  uint32_t state = 1;
  const auto numbers = [&](int64_t size) { return trial_numbers<T>(size, state); };
  const std::vector<T> first = numbers(rows * k), second = numbers(k * columns), added = numbers(columns);
  const auto product = [&](int64_t count) {
    std::vector<T> made(static_cast<size_t>(rows * columns));
    const ParallelGemm<T> same{rows,
                               columns,
                               k,
                               {first.data(), left.transposed ? rows : k, left.transposed},
                               {second.data(), right.transposed ? k : columns, right.transposed},
                               made.data(),
                               bias ? added.data() : nullptr};
    for (int64_t i = 0; i < count; i++) same.run(i, count);
    return made;
  };
  return product(1) == product(parts);
}

template struct ParallelGemm<float>;
template struct ParallelGemm<double>;

} // namespace tb::ops::host
