// Calling the BLAS or our kernel, and trying which.
#include "kernels/blas.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <type_traits>
#include <vector>

#include "kernels/sgemm.h"
#include "team.h"

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
namespace {

template <class T> void by_blas(const Multiplication<T> &product) {
  // By rows, left times right, is by columns, as BLAS has it, right times left.
  const char transpose_b = product.right.transposed ? 't' : 'n', transpose_a = product.left.transposed ? 't' : 'n';
  const int m = static_cast<int>(product.columns), n = static_cast<int>(product.rows),
            k = static_cast<int>(product.inner), stride_b = static_cast<int>(product.right.stride),
            stride_a = static_cast<int>(product.left.stride), stride = static_cast<int>(product.stride);
  const T one = 1, added = product.add;
  Gemm<T> *gemm;
  if constexpr (std::is_same_v<T, float>)
    gemm = sgemm_;
  else
    gemm = dgemm_;
  gemm(&transpose_b, &transpose_a, &m, &n, &k, &one, product.right.data, &stride_b, product.left.data, &stride_a,
       &added, product.out, &stride);
}

int threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

// In parts of the longer side: what each thread arranges anew for itself is the shorter one's.
void by_us(const Multiplication<float> &product) {
  constexpr int64_t least_of_part = 64;
  const bool by_rows = product.rows > product.columns;
  const int64_t extent = by_rows ? product.rows : product.columns;
  const int64_t parts = std::clamp<int64_t>(extent / least_of_part, 1, threads());
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

// A product of the same size, made of other numbers.
class Trial {
public:
  explicit Trial(const Multiplication<float> &like) : product_(like) {
    // An output of which a row is part of a longer one stays one.
    product_.stride = like.columns + (like.stride == like.columns ? 0 : 16);
    product_.left.stride = like.left.transposed ? like.rows : like.inner;
    product_.right.stride = like.right.transposed ? like.inner : like.columns;
    left_ = trial_numbers<float>(like.rows * like.inner, state_);
    right_ = trial_numbers<float>(like.inner * like.columns, state_);
    out_ = trial_numbers<float>(like.rows * product_.stride, state_);
    product_.left.data = left_.data();
    product_.right.data = right_.data();
  }

  struct Outcome {
    int64_t nanoseconds; // the least of a few
    std::vector<float> out;
  };
  Outcome run(void (*multiply)(const Multiplication<float> &)) {
    Outcome outcome{INT64_MAX, {}};
    for (int i = 0; i < 3; i++) {
      outcome.out = out_;
      product_.out = outcome.out.data();
      const auto started = std::chrono::steady_clock::now();
      multiply(product_);
      const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - started;
      outcome.nanoseconds = std::min<int64_t>(outcome.nanoseconds, took.count());
    }
    return outcome;
  }

private:
  Multiplication<float> product_;
  std::vector<float> left_, right_, out_;
  uint32_t state_ = 1;
};

bool gains(const Multiplication<float> &product) {
  Trial trial(product);
  const Trial::Outcome blas = trial.run(by_blas<float>), us = trial.run(by_us);
  return us.out == blas.out && us.nanoseconds < blas.nanoseconds;
}

// Sizes that came up so far: how often, and, once there were a few, who multiplies.
class Choices {
public:
  bool ours(const Multiplication<float> &p) {
    constexpr int64_t least = 1 << 14, most_elements = 16'000'000; // of a product that is tried; of a matrix
    if (p.rows * p.columns * p.inner < least ||
        std::max({p.rows * p.inner, p.inner * p.columns, p.rows * p.columns}) > most_elements)
      return false;
    {
      const std::lock_guard lock(mutex_);
      const auto found = find(p);
      if (found == choices_.end()) return false;
      Choice &choice = found->second;
      if (choice.uses > few || ++choice.uses <= few) return choice.ours;
    }
    const bool gained = gains(p);
    const std::lock_guard lock(mutex_);
    return find(p)->second.ours = gained;
  }

  std::vector<TriedProduct> tried() const {
    std::vector<TriedProduct> out;
    const std::lock_guard lock(mutex_);
    for (const auto &[key, choice] : choices_)
      if (choice.uses > few)
        out.push_back({key[0], key[1], key[2], key[3] != 0, key[4] != 0, static_cast<int>(key[7]), choice.ours});
    return out;
  }

private:
  // A trial takes as long as ten products or so; where no size comes again it would never pay.
  static constexpr uint32_t few = 4;
  static constexpr size_t most_sizes = 4096;

  using Key = std::array<int64_t, 8>; // rows, columns, inner, left and right transposed, adds, dense, threads
  struct Choice {
    uint32_t uses = 0; // counted until it is tried
    bool ours = false;
  };
  std::map<Key, Choice>::iterator find(const Multiplication<float> &p) {
    const Key key{p.rows,   p.columns, p.inner, p.left.transposed, p.right.transposed, p.add, p.stride == p.columns,
                  threads()};
    return choices_.size() < most_sizes ? choices_.try_emplace(key).first : choices_.find(key);
  }

  mutable std::mutex mutex_;
  std::map<Key, Choice> choices_; // elements stay where they are
};

} // namespace

bool has_blas(c10::ScalarType type) { return (type == c10::kDouble && dgemm_) || (type == c10::kFloat && sgemm_); }

static Choices &choices() {
  static auto &object = *new Choices; // workers outlive static objects
  return object;
}

std::vector<TriedProduct> tried_products() { return choices().tried(); }

template <> void Multiplication<double>::run() const { by_blas(*this); }

template <> void Multiplication<float>::run() const {
  static const bool possible = has_sgemm();
  if (possible && choices().ours(*this))
    by_us(*this);
  else
    by_blas(*this);
}

} // namespace tb
