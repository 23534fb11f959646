#include "microkernels/attention.h"

#include <algorithm>

#include "microkernels/gemm.h"

namespace tb::ops::microkernels {

double AttentionSize::nanoseconds() const {
  const int64_t gemms = backward ? 5 : 2;
  return static_cast<double>(batch * heads * gemms) * gemm_nanoseconds(queries, keys, width);
}

} // namespace tb::ops::microkernels

#if defined(__x86_64__)

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "microkernels/avx512.h"
#include "microkernels/sgemm.h"

// PyTorch's kernels call this exponential. libtorch exports it where it is built with SLEEF; otherwise it is null.
extern "C" __attribute__((weak)) TB_AVX512 __m512 Sleef_expf16_u10(__m512);

namespace tb::ops::microkernels {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// A product that is rounded by itself: the compiler may contract a plain product and a sum into one operation.
TB_INLINE Vector rounded_product(Vector a, Vector b) {
  return _mm512_mul_round_ps(a, b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// e^x within 20 units in the last place, by the polynomial of PyTorch's function of the same purpose (exp_u20).
TB_INLINE Vector quick_exponential(Vector x) {
  constexpr float least = -0x1.5d58ap+6f, most = 0x1.62e43p+6f; // the range of x in which the result is normal
  const __mmask16 vanishes = _mm512_cmp_ps_mask(x, all(least), _CMP_LT_OS);
  x = _mm512_max_ps(_mm512_min_ps(x, all(most)), all(least));
  const __m512i n =
      _mm512_cvt_roundps_epi32(fused(x, all(0x1.715476p+0f), all(0.5f)), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  const Vector r = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(n), all(0x1.62e43p-1f), x);
  Vector p = fused(r, all(0.00828929059f), all(0.0418978221f));
  p = fused(r, fused(r, fused(r, p, all(0.166676521f)), all(0.499991506f)), all(0.999999701f));
  p = fused(r, p, all(1));
  // 2^128 is not representable, so the power is halved here and the product doubled below.
  const __m512i half = _mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(126)), 23);
  const Vector power = _mm512_mask_blend_ps(vanishes, _mm512_castsi512_ps(half), all(0));
  return rounded_product(rounded_product(p, power), all(2));
}

// A right operand, packed for sgemm's kernel. GEMMs of a single row or a single term go to the BLAS, which has another order
// of additions for these.
class RightOperand {
public:
  // A k x columns matrix. Results are scaled by `scale`, which is applied to the elements of this operand, as in the BLAS.
  void set(const Operand<float> &matrix, int64_t k, int64_t columns, float scale = 1) {
    plain_ = matrix;
    scale_ = scale;
    packed_.begin(matrix, k, columns);
    packed_.pack(0, packed_.panels());
    if (scale != 1) packed_.scale(scale);
  }
  // out = left times the first `terms` rows and `columns` columns of this operand or, with `add`, out += that.
  void multiply(const Operand<float> &left, int64_t rows, int64_t terms, int64_t columns, const Matrices<float> &out,
                bool add) const {
    if (rows == 1 || terms == 1)
      blas_gemm<float>({rows, columns, terms, left, plain_, out.data, out.stride, add}, scale_);
    else
      packed_.multiply_leading(left, rows, terms, columns, out, add);
  }

private:
  Operand<float> plain_{};
  float scale_ = 1;
  PackedOperand packed_;
};

constexpr int64_t block_keys = AttentionSize::block_keys;
// The number of queries that PyTorch processes together.
int64_t block_queries(int64_t queries) {
  return std::min<int64_t>(queries, queries >= 768 ? 256 : queries >= 192 ? 64 : 32);
}

// The stride of a row of scores: an odd number of cache lines, so that a column does not map to one set of the cache.
int64_t row_stride(int64_t keys) { return ((keys + lanes - 1) / lanes | 1) * lanes; }

// The softmax of a row of scores that arrives in blocks of keys.
struct OnlineSoftmax {
  float maximum = -infinity, sum = 0;
  float rescale = 1; // factor for what was accumulated with the weights of earlier blocks

  // Replaces scores by unnormalized weights in place; the query attends to the first `visible` of the `keys` keys. Returns
  // false if a score is NaN.
  bool update(float *row, int64_t keys, int64_t visible, float scale);
};

TB_AVX512 bool OnlineSoftmax::update(float *row, int64_t keys, int64_t visible, float scale) {
  const int64_t whole = keys / lanes * lanes; // PyTorch computes the remainder in scalar code
  Vector maxima = all(-infinity);
  __mmask16 nan = 0;
  for (int64_t j = 0; j < whole; j += lanes) {
    const Vector score = _mm512_mask_blend_ps(first_lanes(visible - j), all(-infinity), load(row + j, 0xffff));
    const Vector scaled = rounded_product(score, all(scale));
    nan |= _mm512_cmp_ps_mask(scaled, scaled, _CMP_UNORD_Q);
    maxima = _mm512_max_ps(maxima, scaled);
    store(row + j, 0xffff, scaled);
  }
  float scalar_max = -infinity;
  for (int64_t j = whole; j < keys; j++) {
    row[j] = (j < visible ? row[j] : -infinity) * scale;
    scalar_max = std::max(scalar_max, row[j]);
    nan |= std::isnan(row[j]);
  }
  const float most = std::max({scalar_max, _mm512_reduce_max_ps(maxima), maximum});
  rescale = 1;
  if (most == -infinity) {
    std::fill_n(row, keys, 0.0f);
    return !nan;
  }
  Vector sums = all(0);
  const int64_t nonzero = scale > 0 ? std::min(whole, (visible + lanes - 1) / lanes * lanes) : whole;
  for (int64_t j = 0; j < nonzero; j += lanes) {
    const Vector e = quick_exponential(load(row + j, 0xffff) - all(most));
    sums += e;
    store(row + j, 0xffff, e);
  }
  std::fill(row + nonzero, row + whole, 0.0f);
  float here = _mm512_reduce_add_ps(sums);
  for (int64_t j = whole; j < keys; j++) // in double precision, as in PyTorch
    here += row[j] = static_cast<float>(std::exp(static_cast<double>(row[j] - most)));
  rescale = std::exp(maximum - most);
  sum = std::fma(rescale, sum, here);
  maximum = most;
  return !nan;
}

// Buffers that a thread reuses for each head. `keys` and `values` are transposed.
struct Scratch {
  RightOperand keys, keys_by_position, values, values_by_position, queries, grads;
  AlignedBuffer memory;
  std::vector<OnlineSoftmax> softmax;
};
Scratch &scratch() {
  static thread_local Scratch of_this_thread;
  return of_this_thread;
}

// The largest magnitude. A NaN counts as larger than any number.
TB_AVX512 float magnitude(const HeadVectors<const float> &vectors, int64_t positions, int64_t width) {
  __m512i most = _mm512_setzero_si512(); // magnitudes of floats compare as their bits do
  for (int64_t i = 0; i < positions; i++)
    for (int64_t j = 0; j < width; j += lanes)
      most = _mm512_max_epi32(most, _mm512_castps_si512(_mm512_abs_ps(load(vectors.at(i) + j, 0xffff))));
  return std::bit_cast<float>(_mm512_reduce_max_epi32(most));
}

TB_AVX512 void scale_row(const float *from, float by, int64_t count, float *to) {
  for (int64_t j = 0; j < count; j += lanes) {
    const __mmask16 mask = first_lanes(count - j);
    store(to + j, mask, load(from + j, mask) * all(by));
  }
}

// The sum of a[j] * b[j]: first within each lane, then across the lanes.
TB_AVX512 float dot(const float *a, const float *b, int64_t count) {
  Vector sums = rounded_product(load(a, 0xffff), load(b, 0xffff));
  for (int64_t j = lanes; j < count; j += lanes) sums += rounded_product(load(a + j, 0xffff), load(b + j, 0xffff));
  return _mm512_reduce_add_ps(sums);
}

// Recomputes the softmax from the scores and the logarithm of the sum of exponentials.
TB_AVX512 void recompute_softmax(float *row, int64_t keys, int64_t visible, float logsumexp) {
  std::fill(row + visible, row + keys, 0.0f);
  for (int64_t j = 0; j < visible; j += lanes) {
    const __mmask16 mask = first_lanes(visible - j);
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

  // The number of keys to which the query attends.
  int64_t visible_to(int64_t query) const { return size.causal ? std::min(query + 1, size.keys) : size.keys; }
  // Calls begin(key, keys) for each block of keys, then visit(key, query, queries, used) for each block of queries that
  // attends to some of them. `used` is the number of keys to multiply by. PyTorch also multiplies by the zero weights of
  // masked keys; these are left out only where that cannot change a bit: all numbers are finite and the GEMM is not the BLAS's.
  template <class Begin, class Visit>
  void for_each_block(int64_t block, bool finite, const Begin &begin, const Visit &visit) const {
    for (int64_t key = 0; key < size.keys; key += block_keys) {
      const int64_t keys = std::min(block_keys, size.keys - key);
      begin(key, keys);
      for (int64_t query = 0; query < size.queries; query += block) {
        const int64_t queries = std::min(block, size.queries - query), visible = visible_to(query + queries - 1) - key;
        if (visible > 0) visit(key, query, queries, finite && queries > 1 ? std::min(visible, keys) : keys);
      }
    }
  }
};

bool Head::forward(const Rows &out, const Rows &logsumexp) const {
  Scratch &s = scratch();
  // Rows are independent, so blocks of any length are bit-identical to PyTorch's unless a single row remains.
  constexpr int64_t fits = 32; // queries whose scores fit the cache
  const int64_t width = size.width, block = size.queries % fits == 1 ? block_queries(size.queries) : fits;
  const int64_t row = row_stride(std::min(block_keys, size.keys));
  float *const weights = s.memory.reserve(block * row);
  s.softmax.assign(static_cast<size_t>(size.queries), OnlineSoftmax());
  bool has_nan = false;
  const bool finite = magnitude(value, size.keys, width) < infinity;
  const auto begin = [&](int64_t first, int64_t keys) {
    s.keys.set({key.at(first), key.position, true}, width, keys);
    s.values_by_position.set({value.at(first), value.position}, keys, width);
  };
  for_each_block(block, finite, begin, [&](int64_t first_key, int64_t first, int64_t rows, int64_t keys) {
    s.keys.multiply({query.at(first), query.position}, rows, width, keys, {weights, row}, false);
    for (int64_t i = 0; i < rows; i++) {
      OnlineSoftmax &one = s.softmax[static_cast<size_t>(first + i)];
      const int64_t visible = std::clamp<int64_t>(visible_to(first + i) - first_key, 0, keys);
      has_nan |= !one.update(weights + i * row, keys, visible, scale);
      if (first_key > 0) scale_row(out.at(first + i), one.rescale, width, out.at(first + i));
    }
    s.values_by_position.multiply({weights, row}, rows, keys, width, {out.at(first), out.position}, first_key > 0);
  });
  for (int64_t i = 0; i < size.queries; i++) {
    const OnlineSoftmax &one = s.softmax[static_cast<size_t>(i)];
    const float total = one.sum == 0 ? 1 : one.sum; // the sum is 0 if every key is masked
    *logsumexp.at(i) = (one.maximum == -infinity ? 0 : one.maximum) + std::log(total);
    scale_row(out.at(i), 1 / total, width, out.at(i));
  }
  return !has_nan;
}

void Head::backward(const ConstRows &out, const ConstRows &logsumexp, const ConstRows &grad, const Rows &grad_query,
                    const Rows &grad_key, const Rows &grad_value) const {
  Scratch &s = scratch();
  const int64_t width = size.width, block = block_queries(size.queries);
  const int64_t row = row_stride(std::min(block_keys, size.keys));
  float *const weights = s.memory.reserve(2 * block * row), *const grads = weights + block * row;
  for (int64_t i = 0; i < size.queries; i++) std::fill_n(grad_query.at(i), width, 0.0f);
  for (int64_t j = 0; j < size.keys; j++) {
    std::fill_n(grad_key.at(j), width, 0.0f);
    std::fill_n(grad_value.at(j), width, 0.0f);
  }
  // If no sum of products overflows, the zero weight of a masked key is never multiplied by a number that is not finite.
  const float most_grad = magnitude(grad, size.queries, width) * static_cast<float>(width);
  const bool finite = most_grad * magnitude(value, size.keys, width) < infinity &&
                      most_grad * magnitude(out, size.queries, width) < infinity &&
                      magnitude(query, size.queries, width) * scale < infinity &&
                      magnitude(key, size.keys, width) * scale < infinity;
  const auto begin = [&](int64_t first, int64_t keys) {
    s.keys.set({key.at(first), key.position, true}, width, keys, scale);
    s.keys_by_position.set({key.at(first), key.position}, keys, width, scale);
    s.values.set({value.at(first), value.position, true}, width, keys);
  };
  for_each_block(block, finite, begin, [&](int64_t first_key, int64_t first, int64_t rows, int64_t keys) {
    const Operand<float> queries{query.at(first), query.position}, out_grads{grad.at(first), grad.position};
    s.keys.multiply(queries, rows, width, keys, {weights, row}, false);
    s.values.multiply(out_grads, rows, width, keys, {grads, row}, false);
    for (int64_t i = 0; i < rows; i++) {
      const int64_t visible = std::clamp<int64_t>(visible_to(first + i) - first_key, 0, keys);
      recompute_softmax(weights + i * row, keys, visible, *logsumexp.at(first + i));
      softmax_backward(weights + i * row, keys, dot(grad.at(first + i), out.at(first + i), width), grads + i * row);
    }
    s.grads.set(out_grads, rows, width);
    s.queries.set(queries, rows, width, scale);
    s.grads.multiply({weights, row, true}, keys, rows, width, {grad_value.at(first_key), grad_value.position}, true);
    s.queries.multiply({grads, row, true}, keys, rows, width, {grad_key.at(first_key), grad_key.position}, true);
    s.keys_by_position.multiply({grads, row}, rows, keys, width, {grad_query.at(first), grad_query.position}, true);
  });
}

template <class Run> void for_each_head(const ParallelLoop &loop, const Attention &attention, const Run &run) {
  const AttentionSize &size = attention.size;
  loop(size.batch * size.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const auto of = [&](const auto &vectors) { return vectors.of(i / size.heads, i % size.heads); };
      run(Head{size, attention.scale, of(attention.query), of(attention.key), of(attention.value)}, of);
    }
  });
}

} // namespace

bool AttentionSize::is_supported() const {
  static const bool possible = has_sgemm() && Sleef_expf16_u10;
  return possible && width % lanes == 0 && std::min({batch * heads, queries, keys, width}) > 0;
}

bool Attention::forward(const ParallelLoop &loop, const Rows &out, const Rows &logsumexp) const {
  std::atomic<bool> done = true;
  for_each_head(loop, *this, [&](const Head &head, const auto &of) {
    if (!head.forward(of(out), of(logsumexp))) done = false;
  });
  return done;
}

void Attention::backward(const ParallelLoop &loop, const ConstRows &out, const ConstRows &logsumexp,
                         const ConstRows &grad, const Rows &grad_query, const Rows &grad_key,
                         const Rows &grad_value) const {
  for_each_head(loop, *this, [&](const Head &head, const auto &of) {
    head.backward(of(out), of(logsumexp), of(grad), of(grad_query), of(grad_key), of(grad_value));
  });
}

} // namespace tb::ops::microkernels

#else

namespace tb::ops::microkernels {
bool AttentionSize::is_supported() const { return false; }
bool Attention::forward(const ParallelLoop &, const HeadVectors<float> &, const HeadVectors<float> &) const {
  return false;
}
void Attention::backward(const ParallelLoop &, const HeadVectors<const float> &, const HeadVectors<const float> &,
                         const HeadVectors<const float> &, const HeadVectors<float> &, const HeadVectors<float> &,
                         const HeadVectors<float> &) const {}
} // namespace tb::ops::microkernels

#endif
