// Products of two matrices on the worker. Those that at::mm would hand to the BLAS as they are go there directly, and so
// to our kernel where that is faster; the others to at::mm.
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include <algorithm>
#include <climits>
#include <optional>

#include "kernels/product.h"
#include "kernels/sgemm.h"
#include "structured.h"

namespace tb {
namespace {

using at::Tensor;

std::optional<Factor<float>> factor(const Tensor &matrix) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  const float *data = matrix.const_data_ptr<float>();
  if (matrix.stride(1) == 1 && matrix.stride(0) >= columns) return Factor<float>{data, matrix.stride(0)};
  if (matrix.stride(0) == 1 && matrix.stride(1) >= rows) return Factor<float>{data, matrix.stride(1), true};
  return std::nullopt;
}

// out = left right, the output being a contiguous matrix; nothing where at::mm has to look at it.
std::optional<Product<float>> product(const Tensor &left, const Tensor &right, Tensor &out) {
  const int64_t rows = out.size(0), columns = out.size(1), inner = left.size(1);
  for (const Tensor *tensor : {&left, &right, static_cast<const Tensor *>(&out)})
    if (tensor->scalar_type() != c10::kFloat) return std::nullopt;
  if (!out.is_contiguous() || std::min({rows, columns, inner}) < 2 || !multiplies(c10::kFloat)) return std::nullopt;
  const auto a = factor(left), b = factor(right);
  if (!a || !b || std::max({rows, columns, inner, a->stride, b->stride}) > INT_MAX) return std::nullopt;
  return Product<float>{rows, columns, inner, *a, *b, out.mutable_data_ptr<float>()};
}

} // namespace

bool run_sgemm(const Tensor &left, const Tensor &right, Tensor out, bool add) {
  for (const Tensor *tensor : {&left, &right, static_cast<const Tensor *>(&out)})
    TORCH_CHECK(tensor->is_cpu() && tensor->scalar_type() == c10::kFloat && tensor->dim() == 2,
                "_sgemm takes float matrices on the CPU");
  TORCH_CHECK(left.size(1) == right.size(0) && left.size(0) == out.size(0) && right.size(1) == out.size(1),
              "_sgemm got factors of ", left.sizes(), " and ", right.sizes(), " for an output of ", out.sizes());
  const auto a = factor(left), b = factor(right);
  TORCH_CHECK(a && b && out.stride(1) == 1,
              "_sgemm takes factors whose rows or columns are dense, and an output by rows");
  if (!has_sgemm()) return false;
  sgemm({out.size(0), out.size(1), left.size(1), *a, *b, out.mutable_data_ptr<float>(), out.stride(0), add});
  return true;
}

namespace cpu {

void mm_outf(const Tensor &self, const Tensor &mat2, Tensor &out) {
  if (const auto direct = product(self, mat2, out)) return direct->run();
  at::cpu::mm_outf(self, mat2, out);
}

void addmm_outf(const Tensor &self, const Tensor &mat1, const Tensor &mat2, const at::Scalar &beta,
                const at::Scalar &alpha, Tensor &out) {
  const bool row = self.dim() == 1 && self.size(0) == out.size(1) && self.is_contiguous() && beta.equal(1) &&
                   alpha.equal(1) && self.scalar_type() == c10::kFloat;
  auto direct = row ? product(mat1, mat2, out) : std::nullopt;
  if (!direct) {
    at::cpu::addmm_outf(self, mat1, mat2, beta, alpha, out);
    return;
  }
  direct->bias = self.const_data_ptr<float>();
  direct->run();
}

} // namespace cpu
} // namespace tb
