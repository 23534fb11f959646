// max_pool2d_with_indices on the worker. Our microkernel computes dense planes of float and double, and PyTorch all
// others.
#include <ATen/ops/max_pool2d_with_indices_cpu_dispatch.h>

#include <climits>

#include "backends/host/cpu_kernels.h"
#include "backends/host/overrides.h"
#include "intraop/parallel_for.h"
#include "microkernels/max_pool.h"

namespace tb::ops::host {
namespace {

using at::Tensor;
using microkernels::PoolWindows;

template <class T>
void pool(const Tensor &self, const PoolWindows &rows, const PoolWindows &columns, Tensor &out, Tensor &indices) {
  const T *from = self.const_data_ptr<T>();
  T *to = out.mutable_data_ptr<T>();
  int64_t *index = indices.mutable_data_ptr<int64_t>();
  const int64_t inputs = rows.input * columns.input, outputs = rows.output * columns.output;
  parallel_for(0, out.numel() / outputs, 1, [&](int64_t begin, int64_t end) {
    microkernels::max_pool(rows, columns, end - begin, from + begin * inputs, to + begin * outputs,
                           index + begin * outputs);
  });
}

} // namespace

namespace cpu {

void max_pool2d_with_indices_outf(const Tensor &self, c10::IntArrayRef kernel_size, c10::IntArrayRef stride,
                                  c10::IntArrayRef padding, c10::IntArrayRef dilation, bool ceil_mode, Tensor &out,
                                  Tensor &indices) {
  const bool supported =
      (self.scalar_type() == c10::kFloat || self.scalar_type() == c10::kDouble) && cpu_kernels() != CpuKernels::off;
  const int64_t height = self.size(-2), width = self.size(-1);
  const auto windows = [&](size_t dim, int64_t input, int64_t output) {
    const auto of = [dim](c10::IntArrayRef pair) { return pair[pair.size() == 1 ? 0 : dim]; };
    return PoolWindows{input,       output,      of(kernel_size), of(stride.empty() ? kernel_size : stride),
                       of(padding), of(dilation)};
  };
  if (!supported || height * width > INT_MAX / 8 || out.numel() == 0 || !self.is_contiguous() || !out.is_contiguous() ||
      !indices.is_contiguous()) {
    at::cpu::max_pool2d_with_indices_outf(self, kernel_size, stride, padding, dilation, ceil_mode, out, indices);
    return;
  }
  const PoolWindows rows = windows(0, height, out.size(-2)), columns = windows(1, width, out.size(-1));
  if (self.scalar_type() == c10::kFloat)
    pool<float>(self, rows, columns, out, indices);
  else
    pool<double>(self, rows, columns, out, indices);
}

} // namespace cpu
} // namespace tb::ops::host
