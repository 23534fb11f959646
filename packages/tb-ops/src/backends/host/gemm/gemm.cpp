// Calling the BLAS or our kernel, and trying which.
#include "backends/host/gemm/gemm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <type_traits>

#include "microkernels/sgemm.h"
#include "intraop/thread_policy.h"

namespace tb {
template <class T> using Gemm = void(const char *, const char *, const int *, const int *, const int *, const T *,
                                     const T *, const int *, const T *, const int *, const T *, T *, const int *);
} // namespace tb

// Of the BLAS that libtorch carries; null where it carries none.
extern "C" {
__attribute__((weak)) tb::Gemm<float> sgemm_;
__attribute__((weak)) tb::Gemm<double> dgemm_;
}

namespace tb {

template <class T> void multiply_by_blas(const Multiplication<T> &product, T factor) {
  // By rows, left times right, is by columns, as BLAS has it, right times left.
  const char transpose_b = product.right.transposed ? 't' : 'n', transpose_a = product.left.transposed ? 't' : 'n';
  const int m = static_cast<int>(product.columns), n = static_cast<int>(product.rows),
            k = static_cast<int>(product.inner), stride_b = static_cast<int>(product.right.stride),
            stride_a = static_cast<int>(product.left.stride), stride = static_cast<int>(product.stride);
  const T added = product.add;
  Gemm<T> *gemm;
  if constexpr (std::is_same_v<T, float>)
    gemm = sgemm_;
  else
    gemm = dgemm_;
  gemm(&transpose_b, &transpose_a, &m, &n, &k, &factor, product.right.data, &stride_b, product.left.data, &stride_a,
       &added, product.out, &stride);
}

template void multiply_by_blas(const Multiplication<float> &, float);
template void multiply_by_blas(const Multiplication<double> &, double);

namespace {

// A product of the same size, made of other numbers.
bool gains(const Multiplication<float> &like) {
  Multiplication<float> product = like;
  // An output of which a row is part of a longer one stays one.
  product.stride = like.columns + (like.stride == like.columns ? 0 : 16);
  product.left.stride = like.left.transposed ? like.rows : like.inner;
  product.right.stride = like.right.transposed ? like.inner : like.columns;
  uint32_t state = 1;
  const auto left = trial_numbers<float>(like.rows * like.inner, state),
             right = trial_numbers<float>(like.inner * like.columns, state),
             before = trial_numbers<float>(like.rows * product.stride, state);
  product.left.data = left.data();
  product.right.data = right.data();
  const auto outcome = [&](void (*multiply)(const Multiplication<float> &)) {
    return try_product(before, [&](float *out) {
      product.out = out;
      multiply(product);
    });
  };
  const TrialOutcome blas = outcome([](const auto &p) { multiply_by_blas(p); });
  return outcome(multiply_by_us).gains(blas);
}

} // namespace

int product_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

ProductSize size_of(const Multiplication<float> &product, int64_t count) {
  return {.count = count,
          .rows = product.rows,
          .columns = product.columns,
          .inner = product.inner,
          .left_transposed = product.left.transposed,
          .right_transposed = product.right.transposed,
          .adds = product.add,
          .dense = product.stride == product.columns,
          .threads = product_threads()};
}

// In parts of the longer side: what each thread arranges anew for itself is the shorter one's.
void multiply_by_us(const Multiplication<float> &product) {
  constexpr int64_t least_of_part = 64;
  const bool by_rows = product.rows > product.columns;
  const int64_t extent = by_rows ? product.rows : product.columns;
  const int64_t parts = std::clamp<int64_t>(extent / least_of_part, 1, product_threads());
  const auto part = [&](int64_t i) {
    constexpr int64_t line = 16;
    const int64_t begin = begin_of_part(i, parts, extent, line);
    sgemm(product.part(by_rows, begin, begin_of_part(i + 1, parts, extent, line) - begin));
  };
  if (parts == 1) return sgemm(product);
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) part(i);
  });
}

bool has_blas(c10::ScalarType type) { return (type == c10::kDouble && dgemm_) || (type == c10::kFloat && sgemm_); }

template <> void Multiplication<double>::run() const { multiply_by_blas(*this); }

template <> void Multiplication<float>::run() const {
  if (is_ours(size_of(*this), [this] { return gains(*this); }))
    multiply_by_us(*this);
  else
    multiply_by_blas(*this);
}

} // namespace tb
