#include "kernels/float_attention.h"

#include <algorithm>

#include "kernels/blas.h"

namespace tb {

double AttentionSize::nanoseconds() const {
  const int64_t products = backward ? 5 : 2;
  return static_cast<double>(batch * heads * products) * product_nanoseconds(queries, keys, width);
}

} // namespace tb

#if defined(__x86_64__)

#include <atomic>
#include <cmath>
#include <limits>

#include "kernels/avx512.h"
#include "kernels/sgemm.h"
#include "team.h"

#define TB_INLINE TB_AVX512 __attribute__((always_inline)) inline

// The exponential that PyTorch's kernels call, which libtorch carries. Null where it carries none.
extern "C" __attribute__((weak)) TB_AVX512 __m512 Sleef_expf16_u10(__m512);

namespace tb {
namespace {

using Vector = __m512;
constexpr float infinity = std::numeric_limits<float>::infinity();

TB_INLINE Vector all(float x) { return _mm512_set1_ps(x); }
TB_INLINE Vector load(const float *from, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, from); }
TB_INLINE void store(float *to, __mmask16 mask, Vector x) { _mm512_mask_storeu_ps(to, mask, x); }
TB_INLINE Vector fused(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
// Rounded by itself: a compiler may make one operation of a plain product and the sum it goes into.
TB_INLINE Vector rounded_product(Vector a, Vector b) {
  return _mm512_mul_round_ps(a, b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// e^x within 20 units of the last place: PyTorch's approximation of that name, with its coefficients.
TB_INLINE Vector quick_exponential(Vector x) {
  constexpr float least = -0x1.5d58ap+6f, most = 0x1.62e43p+6f; // of x, for a normal result
  const __mmask16 vanishes = _mm512_cmp_ps_mask(x, all(least), _CMP_LT_OS);
  x = _mm512_max_ps(_mm512_min_ps(x, all(most)), all(least));
  const __m512i n =
      _mm512_cvt_roundps_epi32(fused(x, all(0x1.715476p+0f), all(0.5f)), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  const Vector r = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(n), all(0x1.62e43p-1f), x);
  Vector p = fused(r, all(0.00828929059f), all(0.0418978221f));
  p = fused(r, fused(r, fused(r, p, all(0.166676521f)), all(0.499991506f)), all(0.999999701f));
  p = fused(r, p, all(1));
  // 2^n has no exponent of its own where n is 128: half of it has.
  const __m512i half = _mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(126)), 23);
  const Vector power = _mm512_mask_blend_ps(vanishes, _mm512_castsi512_ps(half), all(0));
  return rounded_product(rounded_product(p, power), all(2));
}

// What a thread keeps from head to head: factors laid out, of which `keys` and `values` are transposed.
struct Scratch {
  ArrangedFactor keys, keys_by_position, values, values_by_position, queries, grads;
  Panels memory;
};
Scratch &scratch() {
  static thread_local Scratch of_this_thread;
  return of_this_thread;
}

// PyTorch's blocks of queries.
int64_t block_of(int64_t queries) {
  return std::min<int64_t>(queries, queries >= 768 ? 256 : queries >= 192 ? 64 : 32);
}

void arrange(ArrangedFactor &factor, const Factor<float> &matrix, int64_t inner, int64_t columns) {
  factor.begin(matrix, inner, columns);
  factor.arrange(0, factor.panels());
}

// The softmax of a row of scores, without the division, in place. `seen`: how many of the `keys` the query sees.
struct Softmax {
  float greatest, sum;
  bool has_nan;
};
TB_AVX512 Softmax softmax(float *row, int64_t keys, int64_t seen, float scale) {
  const int64_t whole = keys / lanes * lanes; // PyTorch takes the rest one by one
  Vector greatest = all(-infinity);
  __mmask16 nan = 0;
  for (int64_t j = 0; j < whole; j += lanes) {
    const Vector score = _mm512_mask_blend_ps(first_lanes(seen - j), all(-infinity), load(row + j, 0xffff));
    const Vector scaled = rounded_product(score, all(scale));
    nan |= _mm512_cmp_ps_mask(scaled, scaled, _CMP_UNORD_Q);
    greatest = _mm512_max_ps(greatest, scaled);
    store(row + j, 0xffff, scaled);
  }
  float of_rest = -infinity;
  for (int64_t j = whole; j < keys; j++) {
    row[j] = (j < seen ? row[j] : -infinity) * scale;
    of_rest = std::max(of_rest, row[j]);
    nan |= std::isnan(row[j]);
  }
  const float most = std::max(of_rest, _mm512_reduce_max_ps(greatest));
  if (most == -infinity) {
    std::fill_n(row, keys, 0.0f);
    return {most, 0, nan != 0};
  }
  Vector sums = all(0);
  const int64_t nonzero = scale > 0 ? std::min(whole, (seen + lanes - 1) / lanes * lanes) : whole;
  for (int64_t j = 0; j < nonzero; j += lanes) {
    const Vector e = quick_exponential(load(row + j, 0xffff) - all(most));
    sums += e;
    store(row + j, 0xffff, e);
  }
  std::fill(row + nonzero, row + whole, 0.0f);
  float sum = _mm512_reduce_add_ps(sums);
  for (int64_t j = whole; j < keys; j++) sum += row[j] = std::exp(row[j] - most);
  return {most, sum, nan != 0};
}

TB_AVX512 void scale_row(const float *from, float by, int64_t count, float *to) {
  for (int64_t j = 0; j < count; j += lanes) {
    const __mmask16 mask = first_lanes(count - j);
    store(to + j, mask, load(from + j, mask) * all(by));
  }
}

// The sum of a[j] * b[j], lane by lane and then of the lanes.
TB_AVX512 float dot(const float *a, const float *b, int64_t count) {
  Vector sums = rounded_product(load(a, 0xffff), load(b, 0xffff));
  for (int64_t j = lanes; j < count; j += lanes) sums += rounded_product(load(a + j, 0xffff), load(b + j, 0xffff));
  return _mm512_reduce_add_ps(sums);
}

// The softmax again, from the scores and the logarithm of its sum.
TB_AVX512 void softmax_again(float *row, int64_t keys, int64_t seen, float logsumexp) {
  std::fill(row + seen, row + keys, 0.0f);
  for (int64_t j = 0; j < seen; j += lanes) {
    const __mmask16 mask = first_lanes(seen - j);
    const Vector e = Sleef_expf16_u10(load(row + j, mask) - all(logsumexp));
    store(row + j, mask, e);
  }
}

// grad[j] = softmax[j] * (grad[j] - dot)
TB_AVX512 void softmax_backward(const float *softmax, int64_t keys, float dot, float *grad) {
  for (int64_t j = 0; j < keys; j += lanes) {
    const __mmask16 mask = first_lanes(keys - j);
    store(grad + j, mask, load(softmax + j, mask) * (load(grad + j, mask) - all(dot)));
  }
}

// One head's matrices.
using Rows = HeadVectors<float>;
using ConstRows = HeadVectors<const float>;

struct Head {
  const AttentionSize &size;
  float scale;
  ConstRows query, key, value;

  bool forward(const Rows &out, const Rows &logsumexp) const; // as Attention's
  void backward(const ConstRows &out, const ConstRows &logsumexp, const ConstRows &grad, const Rows &grad_query,
                const Rows &grad_key, const Rows &grad_value) const;
  // How many keys the queries up to that one see.
  int64_t seen_by(int64_t query) const { return size.causal ? std::min(query + 1, size.keys) : size.keys; }
};

bool Head::forward(const Rows &out, const Rows &logsumexp) const {
  Scratch &s = scratch();
  const int64_t block = block_of(size.queries), width = size.width;
  float *const weights = s.memory.of(block * (size.keys + width + 1)), *const sums = weights + block * size.keys,
               *const totals = sums + block * width;
  arrange(s.keys, {key.data, key.position, true}, width, size.keys);
  arrange(s.values_by_position, {value.data, value.position}, size.keys, width);
  for (int64_t first = 0; first < size.queries; first += block) {
    const int64_t rows = std::min(block, size.queries - first), keys = seen_by(first + rows - 1);
    s.keys.multiply_beginning({query.at(first), query.position}, rows, width, keys, weights, keys, false);
    for (int64_t i = 0; i < rows; i++) {
      const auto [greatest, sum, has_nan] = softmax(weights + i * keys, keys, seen_by(first + i), scale);
      if (has_nan) return false;
      totals[i] = sum == 0 ? 1 : sum; // of a row that sees nothing
      *logsumexp.at(first + i) = (greatest == -infinity ? 0 : greatest) + std::log(totals[i]);
    }
    s.values_by_position.multiply_beginning({weights, keys}, rows, keys, width, sums, width, false);
    for (int64_t i = 0; i < rows; i++) scale_row(sums + i * width, 1 / totals[i], width, out.at(first + i));
  }
  return true;
}

void Head::backward(const ConstRows &out, const ConstRows &logsumexp, const ConstRows &grad, const Rows &grad_query,
                    const Rows &grad_key, const Rows &grad_value) const {
  Scratch &s = scratch();
  const int64_t block = block_of(size.queries), width = size.width;
  float *const weights = s.memory.of(2 * block * size.keys), *const grads = weights + block * size.keys;
  arrange(s.keys, {key.data, key.position, true}, width, size.keys);
  arrange(s.keys_by_position, {key.data, key.position}, size.keys, width);
  arrange(s.values, {value.data, value.position, true}, width, size.keys);
  s.keys.scale(scale);
  s.keys_by_position.scale(scale);
  for (int64_t i = 0; i < size.queries; i++) std::fill_n(grad_query.at(i), width, 0.0f);
  for (int64_t j = 0; j < size.keys; j++) {
    std::fill_n(grad_key.at(j), width, 0.0f);
    std::fill_n(grad_value.at(j), width, 0.0f);
  }
  for (int64_t first = 0; first < size.queries; first += block) {
    const int64_t rows = std::min(block, size.queries - first), keys = seen_by(first + rows - 1);
    const Factor<float> queries{query.at(first), query.position}, out_grads{grad.at(first), grad.position};
    s.keys.multiply_beginning(queries, rows, width, keys, weights, keys, false);
    s.values.multiply_beginning(out_grads, rows, width, keys, grads, keys, false);
    for (int64_t i = 0; i < rows; i++) {
      float *const row = weights + i * keys;
      softmax_again(row, keys, seen_by(first + i), *logsumexp.at(first + i));
      softmax_backward(row, keys, dot(grad.at(first + i), out.at(first + i), width), grads + i * keys);
    }
    arrange(s.grads, out_grads, rows, width);
    arrange(s.queries, queries, rows, width);
    s.queries.scale(scale);
    s.grads.multiply_beginning({weights, keys, true}, keys, rows, width, grad_value.data, grad_value.position, true);
    s.queries.multiply_beginning({grads, keys, true}, keys, rows, width, grad_key.data, grad_key.position, true);
    s.keys_by_position.multiply_beginning({grads, keys}, rows, keys, width, grad_query.at(first), grad_query.position,
                                          true);
  }
}

template <class Run> void for_each_head(const Attention &attention, const Run &run) {
  const AttentionSize &size = attention.size;
  parallel_for(0, size.batch * size.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const auto of = [&](const auto &vectors) { return vectors.of(i / size.heads, i % size.heads); };
      run(Head{size, attention.scale, of(attention.query), of(attention.key), of(attention.value)}, of);
    }
  });
}

} // namespace

bool AttentionSize::is_supported() const {
  static const bool possible = has_sgemm() && Sleef_expf16_u10;
  return possible && width % lanes == 0 && std::min({batch * heads, queries, keys, width}) > 0 &&
         std::max({keys, width, block_of(queries)}) <= ArrangedFactor::most_terms;
}

bool Attention::forward(const Rows &out, const Rows &logsumexp) const {
  std::atomic<bool> done = true;
  for_each_head(*this, [&](const Head &head, const auto &of) {
    if (!head.forward(of(out), of(logsumexp))) done = false;
  });
  return done;
}

void Attention::backward(const ConstRows &out, const ConstRows &logsumexp, const ConstRows &grad,
                         const Rows &grad_query, const Rows &grad_key, const Rows &grad_value) const {
  for_each_head(*this, [&](const Head &head, const auto &of) {
    head.backward(of(out), of(logsumexp), of(grad), of(grad_query), of(grad_key), of(grad_value));
  });
}

} // namespace tb

#else

namespace tb {
bool AttentionSize::is_supported() const { return false; }
bool Attention::forward(const HeadVectors<float> &, const HeadVectors<float> &) const { return false; }
void Attention::backward(const HeadVectors<const float> &, const HeadVectors<const float> &,
                         const HeadVectors<const float> &, const HeadVectors<float> &, const HeadVectors<float> &,
                         const HeadVectors<float> &) const {}
} // namespace tb

#endif
