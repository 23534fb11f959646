// Matrix products, and batches of them, on the worker. Those that at::mm would hand to the BLAS as they are go there directly,
// and so to the microkernel if that is faster; batches go to the microkernel if it is; the others go to PyTorch.
#include "backends/host/gemm/matmul_ops.h"

#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include <algorithm>
#include <climits>
#include <optional>

#include "backends/host/gemm/kernel_choices.h"
#include "backends/host/gemm/parallel_gemm.h"
#include "backends/host/overrides.h"
#include "intraop/thread_policy.h"
#include "microkernels/sgemm.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

// The matrix, or the first of a batch.
std::optional<MatrixOperand<float>> factor(const Tensor &matrix) {
  const int64_t rows = matrix.size(-2), columns = matrix.size(-1), row = matrix.stride(-2), column = matrix.stride(-1);
  const float *data = matrix.const_data_ptr<float>();
  if (column == 1 && row >= columns) return MatrixOperand<float>{data, row};
  if (row == 1 && column >= rows) return MatrixOperand<float>{data, column, true};
  return std::nullopt;
}

// out = left right, or the first of a batch of such products, the output being contiguous; nothing where PyTorch has to
// look at it.
std::optional<Gemm<float>> multiplication(const Tensor &left, const Tensor &right, Tensor &out) {
  const int64_t rows = out.size(-2), columns = out.size(-1), inner = left.size(-1);
  for (const Tensor *tensor : {&left, &right, static_cast<const Tensor *>(&out)})
    if (tensor->scalar_type() != c10::kFloat) return std::nullopt;
  if (!out.is_contiguous() || std::min({rows, columns, inner}) < 2 || !supports_gemm(c10::kFloat)) return std::nullopt;
  const auto a = factor(left), b = factor(right);
  if (!a || !b || std::max({rows, columns, inner, a->stride, b->stride}) > INT_MAX) return std::nullopt;
  return Gemm<float>{rows, columns, inner, *a, *b, out.mutable_data_ptr<float>(), columns};
}

std::optional<ParallelGemm<float>> product(const Tensor &left, const Tensor &right, Tensor &out) {
  const auto m = multiplication(left, right, out);
  if (!m) return std::nullopt;
  return ParallelGemm<float>{m->rows, m->columns, m->inner, m->left, m->right, m->out};
}

// Products of one size.
struct Batch {
  Gemm<float> first;
  int64_t count, left, right; // elements from one factor to the next; outputs follow each other

  void run() const {
    if (count < gemm_threads()) return run(0, count, gemm_by_microkernel);
    parallel_for(0, count, 1, [&](int64_t begin, int64_t end) { run(begin, end, microkernels::sgemm); });
  }

  // In parts where that pays, each product by one thread.
  void run_shared() const {
    const double nanoseconds = gemm_nanoseconds(count * first.rows, first.columns, first.inner);
    const int64_t parts = intraop.parts(count, nanoseconds);
    if (parts == 1) return run();
    intraop.share(parts, [&](int64_t i, int64_t of) {
      run(begin_of_part(i, of, count, 1), begin_of_part(i + 1, of, count, 1), microkernels::sgemm);
    });
  }

  bool is_ours() const {
    return use_microkernel(shape_of(first, count), [this] { return gains(); });
  }

private:
  void run(int64_t begin, int64_t end, void (*multiply)(const Gemm<float> &)) const {
    for (int64_t i = begin; i < end; i++) {
      Gemm<float> product = first;
      product.left.data += i * left;
      product.right.data += i * right;
      product.out += i * first.rows * first.columns;
      multiply(product);
    }
  }

  // A batch of the same size, of other numbers.
  bool gains() const {
    Batch batch = *this;
    const int64_t rows = first.rows, columns = first.columns, inner = first.inner;
    uint32_t state = 1;
    auto left_numbers = trial_numbers<float>(count * rows * inner, state),
         right_numbers = trial_numbers<float>(count * inner * columns, state);
    const auto before = trial_numbers<float>(count * rows * columns, state);
    const auto made = [this](std::vector<float> &numbers, int64_t size, int64_t second, MatrixOperand<float> &own) {
      own.data = numbers.data();
      own.stride = own.transposed ? size : second;
      return at::from_blob(numbers.data(), {count, size, second},
                           {size * second, own.transposed ? 1 : second, own.transposed ? size : 1}, at::kFloat);
    };
    const Tensor a = made(left_numbers, rows, inner, batch.first.left),
                 b = made(right_numbers, inner, columns, batch.first.right);
    batch.left = rows * inner;
    batch.right = inner * columns;
    const TrialOutcome stock = time_trial(before, [&](float *to) {
      Tensor out = at::from_blob(to, {count, rows, columns}, at::kFloat);
      if (first.add)
        at::cpu::baddbmm_outf(out, a, b, 1, 1, out);
      else
        at::cpu::bmm_outf(a, b, out);
    });
    const TrialOutcome us = time_trial(before, [&](float *to) {
      batch.first.out = to;
      batch.run();
    });
    return us.gains(stock);
  }
};

// Nothing where PyTorch makes the batch.
std::optional<Batch> own_batch(const Tensor &left, const Tensor &right, Tensor &out, bool add) {
  auto first = multiplication(left, right, out);
  if (!first || out.size(0) == 0) return std::nullopt;
  first->add = add;
  const Batch batch{*first, out.size(0), left.stride(0), right.stride(0)};
  return batch.is_ours() ? std::optional(batch) : std::nullopt;
}

} // namespace

bool run_sgemm(const Tensor &left, const Tensor &right, Tensor out, bool add) {
  for (const Tensor *tensor : {&left, &right, static_cast<const Tensor *>(&out)})
    TORCH_CHECK(tensor->is_cpu() && tensor->scalar_type() == c10::kFloat && tensor->dim() == out.dim() &&
                    (out.dim() == 2 || out.dim() == 3),
                "sgemm takes float matrices on the CPU, or batches of them");
  TORCH_CHECK(left.size(-1) == right.size(-2) && left.size(-2) == out.size(-2) && right.size(-1) == out.size(-1) &&
                  (out.dim() == 2 || (left.size(0) == out.size(0) && right.size(0) == out.size(0))),
              "sgemm got factors of ", left.sizes(), " and ", right.sizes(), " for an output of ", out.sizes());
  const auto a = factor(left), b = factor(right);
  TORCH_CHECK(a && b && out.stride(-1) == 1 && (out.dim() == 2 || out.is_contiguous()),
              "sgemm takes factors whose rows or columns are dense, and an output by rows, of a batch without gaps");
  if (!microkernels::has_sgemm()) return false;
  const Gemm<float> first{out.size(-2),   out.size(-1), left.size(-1), *a, *b, out.mutable_data_ptr<float>(),
                          out.stride(-2), add};
  if (out.dim() == 2)
    microkernels::sgemm(first);
  else
    Batch{first, out.size(0), left.stride(0), right.stride(0)}.run();
  return true;
}

namespace cpu {

void mm_outf(const Tensor &self, const Tensor &mat2, Tensor &out) {
  if (const auto direct = product(self, mat2, out)) return direct->run_shared();
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
  direct->run_shared();
}

void bmm_outf(const Tensor &self, const Tensor &mat2, Tensor &out) {
  if (const auto batch = own_batch(self, mat2, out, false)) return batch->run_shared();
  at::cpu::bmm_outf(self, mat2, out);
}

void baddbmm_outf(const Tensor &self, const Tensor &batch1, const Tensor &batch2, const at::Scalar &beta,
                  const at::Scalar &alpha, Tensor &out) {
  const bool plain = beta.equal(1) && alpha.equal(1) && self.scalar_type() == c10::kFloat;
  const auto batch = plain ? own_batch(batch1, batch2, out, true) : std::nullopt;
  if (!batch) {
    at::cpu::baddbmm_outf(self, batch1, batch2, beta, alpha, out);
    return;
  }
  if (!self.is_same(out)) out.copy_(self);
  batch->run_shared();
}

} // namespace cpu
} // namespace tb::ops::host
