// matrices.cpp -- products of matrices.
#include <algorithm>

#include "plan.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") // with -O2 GCC does not vectorise loops of unknown length
#define SIM_INDEPENDENT _Pragma("GCC ivdep")
#else
#define SIM_INDEPENDENT
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SIM_FOR_THIS_PROCESSOR [[gnu::target_clones("arch=haswell", "default")]]
#else
#define SIM_FOR_THIS_PROCESSOR
#endif

namespace sim {
namespace {

// out += a b, for dense (m, k) and (k, n). A block of rows of b stays in the cache, and four rows of out are computed
// at a time. It computes in double precision, so that differences from other devices are their rounding errors.
[[gnu::always_inline]] inline void accumulate(const double *a, const double *b, double *out, int64_t m, int64_t n,
                                              int64_t k) {
  constexpr int64_t kDepth = 128;
  for (int64_t from = 0; from < k; from += kDepth) {
    const int64_t to = std::min(k, from + kDepth);
    for (int64_t row = 0; row < m; row += 4) {
      if (m - row < 4) {
        for (int64_t single = row; single < m; ++single)
          for (int64_t x = from; x < to; ++x) {
            const double factor = a[single * k + x];
            const double *const other = b + x * n;
            double *const sum = out + single * n;
            for (int64_t i = 0; i < n; ++i) sum[i] += factor * other[i];
          }
        break;
      }
      double *__restrict const r0 = out + row * n, *__restrict const r1 = r0 + n, *__restrict const r2 = r1 + n,
                               *__restrict const r3 = r2 + n;
      const double *const a0 = a + row * k, *const a1 = a0 + k, *const a2 = a1 + k, *const a3 = a2 + k;
      int64_t x = from;
      for (; x + 2 <= to; x += 2) {
        const double *__restrict const b0 = b + x * n, *__restrict const b1 = b0 + n;
        const double f0 = a0[x], f1 = a1[x], f2 = a2[x], f3 = a3[x];
        const double g0 = a0[x + 1], g1 = a1[x + 1], g2 = a2[x + 1], g3 = a3[x + 1];
        SIM_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          r0[i] += f0 * b0[i] + g0 * b1[i];
          r1[i] += f1 * b0[i] + g1 * b1[i];
          r2[i] += f2 * b0[i] + g2 * b1[i];
          r3[i] += f3 * b0[i] + g3 * b1[i];
        }
      }
      for (; x < to; ++x) {
        const double *__restrict const b0 = b + x * n;
        const double f0 = a0[x], f1 = a1[x], f2 = a2[x], f3 = a3[x];
        SIM_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          r0[i] += f0 * b0[i];
          r1[i] += f1 * b0[i];
          r2[i] += f2 * b0[i];
          r3[i] += f3 * b0[i];
        }
      }
    }
  }
}

SIM_FOR_THIS_PROCESSOR void multiply_add(const double *a, const double *b, double *out, int64_t m, int64_t n,
                                         int64_t k) {
  accumulate(a, b, out, m, n, k);
}

// out = beta * self + alpha * left right, where self may be missing.
struct Product {
  In self, left, right;
  Out out;
  double beta = 0, alpha = 1;
  int64_t batch = 1, m = 1, n = 1, k = 1;

  void operator()(const Run &run) const {
    const Array<double> a = load<double>(left.in(run)), b = load<double>(right.in(run));
    Array<double> result(batch * m * n);
    std::fill(result.begin(), result.end(), 0.0);
    for (int64_t each = 0; each < batch; ++each)
      multiply_add(a.data() + each * m * k, b.data() + each * k * n, result.data() + each * m * n, m, n, k);
    if (alpha != 1)
      for (double &value : result) value *= alpha;
    if (self && beta != 0) {
      const Array<double> more = load<double>(self.in(run).expanded(out.dims));
      for (int64_t i = 0; i < result.count(); ++i) result[i] += beta * more[i];
    }
    store(out.in(run), result.data());
  }
};

Plan planned(const Product &product, const Dims &dims) {
  for (const In *each : {&product.left, &product.right}) must_be_same_type(*each, product.out);
  must(is_floating(product.out.type), "matrices that are not floating");
  must_have(product.out, dims);
  if (product.self) {
    must_be_same_type(product.self, product.out);
    must(broadcast(product.self.dims, dims) == dims, "a tensor that does not broadcast to the product");
  }
  return {product, 1024 + std::min<uint64_t>(static_cast<uint64_t>(product.m * product.n) * 4, 1 << 16)};
}

void check_mode(int8_t mode) { must(mode >= 0 && mode <= 4, "an unknown cubeMathType"); }

Plan matrices(In self, In left, In right, Number beta, Number alpha, Out out, int8_t mode) {
  check_mode(mode);
  must(left.dims.size() == 2 && right.dims.size() == 2 && left.dims[1] == right.dims[0], "matrices that do not fit");
  return planned({self, left, right, out, beta.real, alpha.real, 1, left.dims[0], right.dims[1], left.dims[1]},
                 {left.dims[0], right.dims[1]});
}
Plan batches(In self, In left, In right, Number beta, Number alpha, Out out, int8_t mode) {
  check_mode(mode);
  must(left.dims.size() == 3 && right.dims.size() == 3 && left.dims[0] == right.dims[0] &&
           left.dims[2] == right.dims[1],
       "batches of matrices that do not fit");
  return planned(
      {self, left, right, out, beta.real, alpha.real, left.dims[0], left.dims[1], right.dims[2], left.dims[2]},
      {left.dims[0], left.dims[1], right.dims[2]});
}
Plan matrix_product(In left, In right, Out out, int8_t mode) {
  return matrices({}, left, right, {true, 0, 0}, {true, 1, 1}, out, mode);
}
Plan batch_product(In left, In right, Out out, int8_t mode) {
  return batches({}, left, right, {true, 0, 0}, {true, 1, 1}, out, mode);
}
Plan matrix_by_vector(In self, In matrix, In vector, Number alpha, Number beta, Out out, int8_t mode) {
  check_mode(mode);
  must(matrix.dims.size() == 2 && vector.dims.size() == 1 && matrix.dims[1] == vector.dims[0],
       "a matrix and a vector that do not fit");
  return planned({self, matrix, vector, out, beta.real, alpha.real, 1, matrix.dims[0], 1, matrix.dims[1]},
                 {matrix.dims[0]});
}
Plan dot(In left, In right, Out out) {
  must(left.dims.size() == 1 && left.dims == right.dims, "vectors that do not fit");
  return planned({{}, left, right, out, 0, 1, 1, 1, 1, left.dims[0]}, {});
}

} // namespace
} // namespace sim

using namespace sim;

SIM_OPERATOR(Mm, &matrix_product)
SIM_OPERATOR(BatchMatMul, &batch_product)
SIM_OPERATOR(Addmm, &matrices)
SIM_OPERATOR(Baddbmm, &batches)
SIM_OPERATOR(Addmv, &matrix_by_vector)
SIM_OPERATOR(Dot, &dot)
