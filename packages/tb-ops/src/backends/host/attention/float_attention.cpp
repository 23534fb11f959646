#include "backends/host/attention/float_attention.h"

#include <algorithm>

#include "backends/host/gemm/gemm.h"

namespace tb::ops::host {

double AttentionSize::nanoseconds() const {
  const int64_t products = backward ? 5 : 2;
  return static_cast<double>(batch * heads * products) * gemm_nanoseconds(queries, keys, width);
}

} // namespace tb::ops::host

#if defined(__x86_64__)

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "intraop/thread_policy.h"
#include "microkernels/avx512.h"
#include "microkernels/sgemm.h"

// The exponential that PyTorch's kernels call, which libtorch carries. Null where it carries none.
extern "C" __attribute__((weak)) TB_AVX512 __m512 Sleef_expf16_u10(__m512);

namespace tb::ops::host {
namespace {

using namespace microkernels;

constexpr float infinity = std::numeric_limits<float>::infinity();

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

// A right factor, laid out for our kernel. The BLAS multiplies by a single row, and adds up a single term, in orders of its
// own: it does so here too.
class RightFactor {
public:
  // inner x columns; products are taken `scale` times, which the BLAS does with the right factor's elements.
  void set(const MatrixOperand<float> &matrix, int64_t inner, int64_t columns, float scale = 1) {
    plain_ = matrix;
    scale_ = scale;
    packed_.begin(matrix, inner, columns);
    packed_.pack(0, packed_.panels());
    if (scale != 1) packed_.scale(scale);
  }
  // out = left times the factor's first `terms` rows and `columns` columns or, with `add`, out += that.
  void multiply(const MatrixOperand<float> &left, int64_t rows, int64_t terms, int64_t columns,
                const Matrices<float> &out, bool add) const {
    if (rows == 1 || terms == 1)
      gemm_by_blas<float>({rows, columns, terms, left, plain_, out.data, out.stride, add}, scale_);
    else
      packed_.multiply_beginning(left, rows, terms, columns, out, add);
  }

private:
  MatrixOperand<float> plain_{};
  float scale_ = 1;
  PackedOperand packed_;
};

constexpr int64_t block_keys = AttentionSize::block_keys;
// How many queries PyTorch takes together.
int64_t block_queries(int64_t queries) {
  return std::min<int64_t>(queries, queries >= 768 ? 256 : queries >= 192 ? 64 : 32);
}

// From one row of scores to the next: an odd number of lines of the cache, so that columns do not meet in one place of it.
int64_t row_of(int64_t keys) { return ((keys + lanes - 1) / lanes | 1) * lanes; }

// A row of scores, of one block of keys after the other.
struct Softmax {
  float greatest = -infinity, sum = 0;
  float rescale = 1; // what was summed up with the weights of the blocks before

  // From scores to weights, without the division, in place. `seen`: how many of the `keys` the query sees. false: a NaN.
  bool take(float *row, int64_t keys, int64_t seen, float scale);
};

TB_AVX512 bool Softmax::take(float *row, int64_t keys, int64_t seen, float scale) {
  const int64_t whole = keys / lanes * lanes; // PyTorch takes the rest one by one
  Vector greatest_each = all(-infinity);
  __mmask16 nan = 0;
  for (int64_t j = 0; j < whole; j += lanes) {
    const Vector score = _mm512_mask_blend_ps(first_lanes(seen - j), all(-infinity), load(row + j, 0xffff));
    const Vector scaled = rounded_product(score, all(scale));
    nan |= _mm512_cmp_ps_mask(scaled, scaled, _CMP_UNORD_Q);
    greatest_each = _mm512_max_ps(greatest_each, scaled);
    store(row + j, 0xffff, scaled);
  }
  float of_rest = -infinity;
  for (int64_t j = whole; j < keys; j++) {
    row[j] = (j < seen ? row[j] : -infinity) * scale;
    of_rest = std::max(of_rest, row[j]);
    nan |= std::isnan(row[j]);
  }
  const float most = std::max({of_rest, _mm512_reduce_max_ps(greatest_each), greatest});
  rescale = 1;
  if (most == -infinity) {
    std::fill_n(row, keys, 0.0f);
    return !nan;
  }
  Vector sums = all(0);
  const int64_t nonzero = scale > 0 ? std::min(whole, (seen + lanes - 1) / lanes * lanes) : whole;
  for (int64_t j = 0; j < nonzero; j += lanes) {
    const Vector e = quick_exponential(load(row + j, 0xffff) - all(most));
    sums += e;
    store(row + j, 0xffff, e);
  }
  std::fill(row + nonzero, row + whole, 0.0f);
  float here = _mm512_reduce_add_ps(sums);
  for (int64_t j = whole; j < keys; j++) // PyTorch's in double precision
    here += row[j] = static_cast<float>(std::exp(static_cast<double>(row[j] - most)));
  rescale = std::exp(greatest - most);
  sum = std::fma(rescale, sum, here);
  greatest = most;
  return !nan;
}

// What a thread keeps from head to head. `keys` and `values` are transposed.
struct Scratch {
  RightFactor keys, keys_by_position, values, values_by_position, queries, grads;
  Panels memory;
  std::vector<Softmax> softmax;
};
Scratch &scratch() {
  static thread_local Scratch of_this_thread;
  return of_this_thread;
}

// The greatest magnitude; a NaN is greater than all.
TB_AVX512 float magnitude(const HeadVectors<const float> &vectors, int64_t positions, int64_t width) {
  __m512i most = _mm512_setzero_si512(); // the order of floats without their signs is that of their bits
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

  // How many keys that query sees.
  int64_t seen_by(int64_t query) const { return size.causal ? std::min(query + 1, size.keys) : size.keys; }
  // begin(key, keys) for each block of keys, and then visit(key, query, queries, used) for each of queries that see some of
  // them. `used`: how many of the keys they see, or all of them: PyTorch multiplies by the zeros of unseen ones, which
  // matters where numbers are not finite, and may where the BLAS has its own order.
  template <class Begin, class Visit>
  void for_each_block(int64_t block, bool finite, const Begin &begin, const Visit &visit) const {
    for (int64_t key = 0; key < size.keys; key += block_keys) {
      const int64_t keys = std::min(block_keys, size.keys - key);
      begin(key, keys);
      for (int64_t query = 0; query < size.queries; query += block) {
        const int64_t queries = std::min(block, size.queries - query), seen = seen_by(query + queries - 1) - key;
        if (seen > 0) visit(key, query, queries, finite && queries > 1 ? std::min(seen, keys) : keys);
      }
    }
  }
};

bool Head::forward(const Rows &out, const Rows &logsumexp) const {
  Scratch &s = scratch();
  // Rows do not depend on each other: blocks of any length have PyTorch's bits, unless a single row is left.
  constexpr int64_t fits = 32;
  const int64_t width = size.width, block = size.queries % fits == 1 ? block_queries(size.queries) : fits;
  const int64_t row = row_of(std::min(block_keys, size.keys));
  float *const weights = s.memory.of(block * row);
  s.softmax.assign(static_cast<size_t>(size.queries), Softmax());
  bool has_nan = false;
  const bool finite = magnitude(value, size.keys, width) < infinity;
  const auto begin = [&](int64_t first, int64_t keys) {
    s.keys.set({key.at(first), key.position, true}, width, keys);
    s.values_by_position.set({value.at(first), value.position}, keys, width);
  };
  for_each_block(block, finite, begin, [&](int64_t first_key, int64_t first, int64_t rows, int64_t keys) {
    s.keys.multiply({query.at(first), query.position}, rows, width, keys, {weights, row}, false);
    for (int64_t i = 0; i < rows; i++) {
      Softmax &one = s.softmax[static_cast<size_t>(first + i)];
      const int64_t seen = std::clamp<int64_t>(seen_by(first + i) - first_key, 0, keys);
      has_nan |= !one.take(weights + i * row, keys, seen, scale);
      if (first_key > 0) scale_row(out.at(first + i), one.rescale, width, out.at(first + i));
    }
    s.values_by_position.multiply({weights, row}, rows, keys, width, {out.at(first), out.position}, first_key > 0);
  });
  for (int64_t i = 0; i < size.queries; i++) {
    const Softmax &one = s.softmax[static_cast<size_t>(i)];
    const float total = one.sum == 0 ? 1 : one.sum; // of a row that sees nothing
    *logsumexp.at(i) = (one.greatest == -infinity ? 0 : one.greatest) + std::log(total);
    scale_row(out.at(i), 1 / total, width, out.at(i));
  }
  return !has_nan;
}

void Head::backward(const ConstRows &out, const ConstRows &logsumexp, const ConstRows &grad, const Rows &grad_query,
                    const Rows &grad_key, const Rows &grad_value) const {
  Scratch &s = scratch();
  const int64_t width = size.width, block = block_queries(size.queries);
  const int64_t row = row_of(std::min(block_keys, size.keys));
  float *const weights = s.memory.of(2 * block * row), *const grads = weights + block * row;
  for (int64_t i = 0; i < size.queries; i++) std::fill_n(grad_query.at(i), width, 0.0f);
  for (int64_t j = 0; j < size.keys; j++) {
    std::fill_n(grad_key.at(j), width, 0.0f);
    std::fill_n(grad_value.at(j), width, 0.0f);
  }
  // No zero of an unseen key can meet a number that is not finite: no sum of products overflows.
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
    const MatrixOperand<float> queries{query.at(first), query.position}, out_grads{grad.at(first), grad.position};
    s.keys.multiply(queries, rows, width, keys, {weights, row}, false);
    s.values.multiply(out_grads, rows, width, keys, {grads, row}, false);
    for (int64_t i = 0; i < rows; i++) {
      const int64_t seen = std::clamp<int64_t>(seen_by(first + i) - first_key, 0, keys);
      softmax_again(weights + i * row, keys, seen, *logsumexp.at(first + i));
      softmax_backward(weights + i * row, keys, dot(grad.at(first + i), out.at(first + i), width), grads + i * row);
    }
    s.grads.set(out_grads, rows, width);
    s.queries.set(queries, rows, width, scale);
    s.grads.multiply({weights, row, true}, keys, rows, width, {grad_value.at(first_key), grad_value.position}, true);
    s.queries.multiply({grads, row, true}, keys, rows, width, {grad_key.at(first_key), grad_key.position}, true);
    s.keys_by_position.multiply({grads, row}, rows, keys, width, {grad_query.at(first), grad_query.position}, true);
  });
}

template <class Run> void for_each_head(const Attention &attention, const Run &run) {
  const AttentionSize &size = attention.size;
  const SequentialBlasScope products;
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
  return possible && width % lanes == 0 && std::min({batch * heads, queries, keys, width}) > 0;
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

} // namespace tb::ops::host

#else

namespace tb::ops::host {
bool AttentionSize::is_supported() const { return false; }
bool Attention::forward(const HeadVectors<float> &, const HeadVectors<float> &) const { return false; }
void Attention::backward(const HeadVectors<const float> &, const HeadVectors<const float> &,
                         const HeadVectors<const float> &, const HeadVectors<float> &, const HeadVectors<float> &,
                         const HeadVectors<float> &) const {}
} // namespace tb::ops::host

#endif
