// mm, addmm, bmm and baddbmm on the worker. This file computes GEMMs that at::mm would hand to the BLAS unchanged, and
// batches for which our microkernel was chosen. PyTorch computes all others.
#include "backends/host/gemm/matmul_ops.h"

#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include <algorithm>
#include <climits>
#include <optional>

#include "backends/host/gemm/parallel_gemm.h"
#include "backends/host/overrides.h"
#include "intraop/thread_policy.h"
#include "microkernels/sgemm.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

// Returns the matrix, or the first of a batch, as an operand; empty if neither its rows nor its columns are dense.
std::optional<Operand<float>> operand(const Tensor &matrix) {
  const int64_t rows = matrix.size(-2), columns = matrix.size(-1), row = matrix.stride(-2), column = matrix.stride(-1);
  const float *data = matrix.const_data_ptr<float>();
  if (column == 1 && row >= columns) return Operand<float>{data, row};
  if (row == 1 && column >= rows) return Operand<float>{data, column, true};
  return std::nullopt;
}

// Returns out = left right, or the first of a batch of such GEMMs; empty if PyTorch has to compute it.
std::optional<Gemm<float>> gemm_of(const Tensor &left, const Tensor &right, Tensor &out) {
  const int64_t rows = out.size(-2), columns = out.size(-1), k = left.size(-1);
  for (const Tensor *tensor : {&left, &right, static_cast<const Tensor *>(&out)})
    if (tensor->scalar_type() != c10::kFloat) return std::nullopt;
  if (!out.is_contiguous() || std::min({rows, columns, k}) < 2 || !supports_gemm(c10::kFloat)) return std::nullopt;
  const auto a = operand(left), b = operand(right);
  if (!a || !b || std::max({rows, columns, k, a->stride, b->stride}) > INT_MAX) return std::nullopt;
  return Gemm<float>{rows, columns, k, *a, *b, out.mutable_data_ptr<float>(), columns};
}

std::optional<ParallelGemm<float>> parallel_gemm(const Tensor &left, const Tensor &right, Tensor &out) {
  const auto m = gemm_of(left, right, out);
  if (!m) return std::nullopt;
  return ParallelGemm<float>{m->rows, m->columns, m->k, m->left, m->right, m->out};
}

// A batch of GEMMs of one size.
struct Batch {
  Gemm<float> first;
  int64_t count, left, right; // strides from one operand to the next; the outputs are dense

  void run() const {
    if (count < gemm_threads()) return run(0, count, run_microkernel);
    parallel_for(0, count, 1, [&](int64_t begin, int64_t end) { run(begin, end, microkernels::sgemm); });
  }

  // Each GEMM is computed by one thread; the batch is divided among threads if that is faster.
  void run_shared() const {
    const double nanoseconds = gemm_nanoseconds(count * first.rows, first.columns, first.k);
    const int64_t parts = intraop.parts(count, nanoseconds);
    if (parts == 1) return run();
    intraop.share(parts, [&](int64_t i, int64_t of) {
      run(begin_of_part(i, of, count, 1), begin_of_part(i + 1, of, count, 1), microkernels::sgemm);
    });
  }

  bool uses_microkernel() const {
    return host::uses_microkernel(key_of(first, count), [this] { return try_microkernel(); });
  }

private:
  void run(int64_t begin, int64_t end, void (*compute)(const Gemm<float> &)) const {
    for (int64_t i = begin; i < end; i++) {
      Gemm<float> gemm = first;
      gemm.left.data += i * left;
      gemm.right.data += i * right;
      gemm.out += i * first.rows * first.columns;
      compute(gemm);
    }
  }

  // Runs a batch of the same key on other numbers, by PyTorch and by our microkernel.
  Trial try_microkernel() const {
    Batch batch = *this;
    const int64_t rows = first.rows, columns = first.columns, k = first.k;
    uint32_t state = 1;
    auto left_numbers = trial_numbers<float>(count * rows * k, state),
         right_numbers = trial_numbers<float>(count * k * columns, state);
    const auto before = trial_numbers<float>(count * rows * columns, state);
    const auto made = [this](std::vector<float> &numbers, int64_t size, int64_t second, Operand<float> &operand) {
      operand.data = numbers.data();
      operand.stride = operand.transposed ? size : second;
      return at::from_blob(numbers.data(), {count, size, second},
                           {size * second, operand.transposed ? 1 : second, operand.transposed ? size : 1}, at::kFloat);
    };
    const Tensor a = made(left_numbers, rows, k, batch.first.left),
                 b = made(right_numbers, k, columns, batch.first.right);
    batch.left = rows * k;
    batch.right = k * columns;
    const auto by_pytorch = [&](float *to) {
      Tensor out = at::from_blob(to, {count, rows, columns}, at::kFloat);
      if (first.add)
        at::cpu::baddbmm_outf(out, a, b, 1, 1, out);
      else
        at::cpu::bmm_outf(a, b, out);
    };
    return compare(before, by_pytorch, [&](float *to) {
      batch.first.out = to;
      batch.run();
    });
  }
};

// Returns the batch if our microkernel computes it; empty if PyTorch does.
std::optional<Batch> microkernel_batch(const Tensor &left, const Tensor &right, Tensor &out, bool add) {
  auto first = gemm_of(left, right, out);
  if (!first || out.size(0) == 0) return std::nullopt;
  first->add = add;
  const Batch batch{*first, out.size(0), left.stride(0), right.stride(0)};
  return batch.uses_microkernel() ? std::optional(batch) : std::nullopt;
}

} // namespace

bool run_sgemm(const Tensor &left, const Tensor &right, Tensor out, bool add) {
  for (const Tensor *tensor : {&left, &right, static_cast<const Tensor *>(&out)})
    TORCH_CHECK(tensor->is_cpu() && tensor->scalar_type() == c10::kFloat && tensor->dim() == out.dim() &&
                    (out.dim() == 2 || out.dim() == 3),
                "sgemm takes float matrices on the CPU, or batches of them");
  TORCH_CHECK(left.size(-1) == right.size(-2) && left.size(-2) == out.size(-2) && right.size(-1) == out.size(-1) &&
                  (out.dim() == 2 || (left.size(0) == out.size(0) && right.size(0) == out.size(0))),
              "sgemm got operands of ", left.sizes(), " and ", right.sizes(), " for an output of ", out.sizes());
  const auto a = operand(left), b = operand(right);
  TORCH_CHECK(a && b && out.stride(-1) == 1 && (out.dim() == 2 || out.is_contiguous()),
              "sgemm takes operands whose rows or columns are dense, and an output by rows, of a batch without gaps");
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
  if (const auto direct = parallel_gemm(self, mat2, out)) return direct->run_shared();
  at::cpu::mm_outf(self, mat2, out);
}

void addmm_outf(const Tensor &self, const Tensor &mat1, const Tensor &mat2, const at::Scalar &beta,
                const at::Scalar &alpha, Tensor &out) {
  const bool row = self.dim() == 1 && self.size(0) == out.size(1) && self.is_contiguous() && beta.equal(1) &&
                   alpha.equal(1) && self.scalar_type() == c10::kFloat;
  auto direct = row ? parallel_gemm(mat1, mat2, out) : std::nullopt;
  if (!direct) {
    at::cpu::addmm_outf(self, mat1, mat2, beta, alpha, out);
    return;
  }
  direct->bias = self.const_data_ptr<float>();
  direct->run_shared();
}

void bmm_outf(const Tensor &self, const Tensor &mat2, Tensor &out) {
  if (const auto batch = microkernel_batch(self, mat2, out, false)) return batch->run_shared();
  at::cpu::bmm_outf(self, mat2, out);
}

void baddbmm_outf(const Tensor &self, const Tensor &batch1, const Tensor &batch2, const at::Scalar &beta,
                  const at::Scalar &alpha, Tensor &out) {
  const bool plain = beta.equal(1) && alpha.equal(1) && self.scalar_type() == c10::kFloat;
  const auto batch = plain ? microkernel_batch(batch1, batch2, out, true) : std::nullopt;
  if (!batch) {
    at::cpu::baddbmm_outf(self, batch1, batch2, beta, alpha, out);
    return;
  }
  if (!self.is_same(out)) out.copy_(self);
  batch->run_shared();
}

} // namespace cpu
} // namespace tb::ops::host
