// Maxima and averages of windows, forward and backward.
#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/operators/volume.h"
#include "backends/jit/pointwise.h"
#include "tensor/outputs.h"

#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/Pool.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_adaptive_avg_pool2d_backward_ops.h>
#include <ATen/ops/_adaptive_avg_pool2d_ops.h>
#include <ATen/ops/_adaptive_avg_pool3d_backward_ops.h>
#include <ATen/ops/_adaptive_avg_pool3d_ops.h>
#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_backward_ops.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/avg_pool2d_ops.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_backward_ops.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/avg_pool3d_ops.h>
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_backward_ops.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>
#include <ATen/ops/max_pool2d_with_indices_ops.h>
#include <ATen/ops/max_pool3d_with_indices_backward_ops.h>
#include <ATen/ops/max_pool3d_with_indices_ops.h>

namespace tb::ops::jit {
namespace {

using at::Tensor;

bool poolable(std::initializer_list<const Tensor *> tensors) {
  const c10::ScalarType type = (*tensors.begin())->scalar_type();
  for (const Tensor *tensor : tensors)
    if (tensor->scalar_type() != type || !moderate(*tensor)) return false;
  return supported(tensors) && c10::isFloatingType(type);
}

// An empty list of strides means windows that do not overlap.
kernels::PoolArguments windows_of(int64_t spatial, c10::IntArrayRef kernel, c10::IntArrayRef stride,
                                  c10::IntArrayRef padding, c10::IntArrayRef dilation) {
  kernels::PoolArguments arguments{};
  take_numbers(arguments.kernel, kernel, spatial, 1);
  take_numbers(arguments.stride, stride.empty() ? kernel : stride, spatial, 1);
  take_numbers(arguments.padding, padding, spatial, 0);
  take_numbers(arguments.dilation, dilation, spatial, 1);
  return arguments;
}

// Launches a thread for each element of `result`.
void launch_pool(const std::string &body, const kernels::PoolArguments &arguments, const Tensor &result) {
  launch_elements(device_number(result), {"pooling.cuh", body, "PoolArguments"}, result.numel(), arguments);
}

// ---- maxima -------------------------------------------------------------------------------------------------------

void maxima(const Tensor &self, int64_t spatial, kernels::PoolArguments arguments, const Tensor &out,
            const Tensor &indices) {
  if (out.numel() == 0) return;
  arguments.input = volume_of(self, spatial), arguments.output = volume_of(out, spatial);
  arguments.indices = volume_of(indices, spatial);
  launch_pool(instance("max_pool", self.scalar_type()), arguments, out);
}

void maxima_backward(const Tensor &grad, const Tensor &indices, int64_t spatial, kernels::PoolArguments arguments,
                     const Tensor &out) {
  if (out.numel() == 0) return;
  arguments.input = volume_of(out, spatial), arguments.output = volume_of(grad, spatial);
  arguments.indices = volume_of(indices, spatial);
  launch_pool(instance("max_pool_backward", out.scalar_type()), arguments, out);
}

std::tuple<Tensor &, Tensor &> max_pool2d(const Tensor &self, c10::IntArrayRef kernel, c10::IntArrayRef stride,
                                          c10::IntArrayRef padding, c10::IntArrayRef dilation, bool ceil, Tensor &out,
                                          Tensor &indices) {
  if (!poolable({&self, &out}))
    return call_fallback<at::_ops::max_pool2d_with_indices_out>(self, kernel, stride, padding, dilation, ceil, out,
                                                                indices);
  Out<at::meta::structured_max_pool2d_with_indices, 2> op(out, indices);
  op.meta(self, kernel, stride, padding, dilation, ceil);
  maxima(self, 2, windows_of(2, kernel, stride, padding, dilation), out, indices);
  return {out, indices};
}

Tensor &max_pool2d_backward(const Tensor &grad, const Tensor &self, c10::IntArrayRef kernel, c10::IntArrayRef stride,
                            c10::IntArrayRef padding, c10::IntArrayRef dilation, bool ceil, const Tensor &indices,
                            Tensor &out) {
  if (!poolable({&self, &grad, &out}) || !supported({&self, &indices}))
    return call_fallback<at::_ops::max_pool2d_with_indices_backward_grad_input>(grad, self, kernel, stride, padding,
                                                                                dilation, ceil, indices, out);
  Out<at::meta::structured_max_pool2d_with_indices_backward> op(out);
  op.meta(grad, self, kernel, stride, padding, dilation, ceil, indices);
  maxima_backward(grad, indices, 2, windows_of(2, kernel, stride, padding, dilation), out);
  return out;
}

// PyTorch has no meta function for this operator.
at::DimVector max_pool3d_sizes(const Tensor &self, const kernels::PoolArguments &windows, bool ceil) {
  const int64_t dims = self.dim();
  TORCH_CHECK(dims == 4 || dims == 5, "max_pool3d: expected an input of 4 or 5 dimensions, but got ", self.sizes());
  for (int64_t d = dims - 4; d < dims; d++)
    TORCH_CHECK(self.size(d) > 0, "max_pool3d: expected non-batch dimensions of positive length, but got ",
                self.sizes());
  at::DimVector sizes(self.sizes());
  for (int64_t d = 0; d < 3; d++) {
    auto &size = sizes[static_cast<size_t>(dims - 3 + d)];
    TORCH_CHECK(windows.kernel[d] > 0 && windows.stride[d] > 0 && windows.dilation[d] > 0,
                "max_pool3d: kernel size, stride and dilation must be greater than zero");
    size = at::native::pooling_output_shape<int64_t>(size, windows.kernel[d], windows.padding[d], windows.stride[d],
                                                     windows.dilation[d], ceil);
    TORCH_CHECK(size > 0, "max_pool3d: the windows do not fit into an input of ", self.sizes());
  }
  return sizes;
}

std::tuple<Tensor, Tensor> max_pool3d(const Tensor &self, c10::IntArrayRef kernel, c10::IntArrayRef stride,
                                      c10::IntArrayRef padding, c10::IntArrayRef dilation, bool ceil) {
  if (!poolable({&self}))
    return call_fallback<at::_ops::max_pool3d_with_indices>(self, kernel, stride, padding, dilation, ceil);
  const kernels::PoolArguments windows = windows_of(3, kernel, stride, padding, dilation);
  const at::DimVector sizes = max_pool3d_sizes(self, windows, ceil);
  const c10::MemoryFormat format = self.suggest_memory_format();
  Tensor out = empty_formatted(self, sizes, self.scalar_type(), format),
         indices = empty_formatted(self, sizes, c10::kLong, format);
  maxima(self, 3, windows, out, indices);
  return {std::move(out), std::move(indices)};
}

Tensor max_pool3d_backward(const Tensor &grad, const Tensor &self, c10::IntArrayRef kernel, c10::IntArrayRef stride,
                           c10::IntArrayRef padding, c10::IntArrayRef dilation, bool ceil, const Tensor &indices) {
  if (!poolable({&self, &grad}) || !supported({&self, &indices}))
    return call_fallback<at::_ops::max_pool3d_with_indices_backward>(grad, self, kernel, stride, padding, dilation,
                                                                     ceil, indices);
  TORCH_CHECK(grad.sizes() == indices.sizes(), "max_pool3d_backward: expected a gradient of shape ", indices.sizes(),
              ", but got ", grad.sizes());
  Tensor out = empty_formatted(self, self.sizes(), self.scalar_type(), self.suggest_memory_format());
  maxima_backward(grad, indices, 3, windows_of(3, kernel, stride, padding, dilation), out);
  return out;
}

// ---- averages -----------------------------------------------------------------------------------------------------

std::string average_kernel(const char *name, c10::ScalarType type, bool adaptive) {
  return std::string(name) + "<" + type_name(type) + (adaptive ? ", true>" : ", false>");
}

void averages(const Tensor &self, int64_t spatial, kernels::PoolArguments arguments, bool adaptive, const Tensor &out) {
  if (out.numel() == 0) return;
  arguments.input = volume_of(self, spatial), arguments.output = volume_of(out, spatial);
  launch_pool(average_kernel("average_pool", self.scalar_type(), adaptive), arguments, out);
}

void averages_backward(const Tensor &grad, int64_t spatial, kernels::PoolArguments arguments, bool adaptive,
                       const Tensor &out) {
  if (out.numel() == 0) return;
  arguments.input = volume_of(out, spatial), arguments.output = volume_of(grad, spatial);
  launch_pool(average_kernel("average_pool_backward", out.scalar_type(), adaptive), arguments, out);
}

kernels::PoolArguments average_windows(int64_t spatial, c10::IntArrayRef kernel, c10::IntArrayRef stride,
                                       c10::IntArrayRef padding, bool padded, std::optional<int64_t> divisor) {
  kernels::PoolArguments arguments = windows_of(spatial, kernel, stride, padding, {});
  arguments.divisor = divisor.value_or(0), arguments.padded = padded;
  return arguments;
}

template <class Op, class Meta, int64_t spatial>
Tensor &avg_pool(const Tensor &self, c10::IntArrayRef kernel, c10::IntArrayRef stride, c10::IntArrayRef padding,
                 bool ceil, bool padded, std::optional<int64_t> divisor, Tensor &out) {
  if (!poolable({&self, &out})) return call_fallback<Op>(self, kernel, stride, padding, ceil, padded, divisor, out);
  Out<Meta> op(out);
  op.meta(self, kernel, stride, padding, ceil, padded, divisor);
  averages(self, spatial, average_windows(spatial, kernel, stride, padding, padded, divisor), false, out);
  return out;
}

template <class Op, class Meta, int64_t spatial>
Tensor &avg_pool_backward(const Tensor &grad, const Tensor &self, c10::IntArrayRef kernel, c10::IntArrayRef stride,
                          c10::IntArrayRef padding, bool ceil, bool padded, std::optional<int64_t> divisor,
                          Tensor &out) {
  if (!poolable({&self, &grad, &out}))
    return call_fallback<Op>(grad, self, kernel, stride, padding, ceil, padded, divisor, out);
  Out<Meta> op(out);
  op.meta(grad, self, kernel, stride, padding, ceil, padded, divisor);
  averages_backward(grad, spatial, average_windows(spatial, kernel, stride, padding, padded, divisor), false, out);
  return out;
}

template <int64_t spatial> void check_adaptive(const Tensor &tensor, const char *name) {
  TORCH_CHECK(tensor.dim() == spatial + 1 || tensor.dim() == spatial + 2, name, ": expected a tensor of ", spatial + 1,
              " or ", spatial + 2, " dimensions, but got ", tensor.sizes());
  for (int64_t d = tensor.dim() - spatial; d < tensor.dim(); d++)
    TORCH_CHECK(tensor.size(d) > 0, name, ": expected a tensor of non-zero size in its dimension ", d,
                ", but got sizes ", tensor.sizes());
}

// The CPU's results in three dimensions are contiguous.
template <int64_t spatial> c10::MemoryFormat adaptive_format(const Tensor &tensor) {
  return spatial == 2 ? tensor.suggest_memory_format() : c10::MemoryFormat::Contiguous;
}

template <class Op, int64_t spatial> Tensor adaptive_avg_pool(const Tensor &self, c10::IntArrayRef size) {
  if (!poolable({&self})) return call_fallback<Op>(self, size);
  check_adaptive<spatial>(self, Op::name);
  TORCH_CHECK(size.size() == spatial, Op::name, ": output_size must have ", spatial, " numbers");
  c10::DimVector sizes(self.sizes().begin(), self.sizes().end() - spatial);
  sizes.append(size.begin(), size.end());
  Tensor out = empty_formatted(self, sizes, self.scalar_type(), adaptive_format<spatial>(self));
  averages(self, spatial, {}, true, out);
  return out;
}

template <class Op, int64_t spatial> Tensor adaptive_avg_pool_backward(const Tensor &grad, const Tensor &self) {
  if (!poolable({&self, &grad})) return call_fallback<Op>(grad, self);
  check_adaptive<spatial>(grad, Op::name);
  TORCH_CHECK(grad.dim() == self.dim(), Op::name, ": the gradient has ", grad.dim(), " dimensions, the input ",
              self.dim());
  Tensor out = empty_formatted(self, self.sizes(), self.scalar_type(), adaptive_format<spatial>(self));
  averages_backward(grad, spatial, {}, true, out);
  return out;
}

} // namespace

void register_pooling(torch::Library &aten) {
  using namespace at;
  aten.impl("max_pool2d_with_indices.out", &max_pool2d);
  aten.impl("max_pool2d_with_indices_backward.grad_input", &max_pool2d_backward);
  aten.impl("max_pool3d_with_indices", &max_pool3d);
  aten.impl("max_pool3d_with_indices_backward", &max_pool3d_backward);
  aten.impl("avg_pool2d.out", &avg_pool<_ops::avg_pool2d_out, meta::structured_avg_pool2d, 2>);
  aten.impl("avg_pool3d.out", &avg_pool<_ops::avg_pool3d_out, meta::structured_avg_pool3d, 3>);
  aten.impl("avg_pool2d_backward.grad_input",
            &avg_pool_backward<_ops::avg_pool2d_backward_grad_input, meta::structured_avg_pool2d_backward, 2>);
  aten.impl("avg_pool3d_backward.grad_input",
            &avg_pool_backward<_ops::avg_pool3d_backward_grad_input, meta::structured_avg_pool3d_backward, 3>);
  aten.impl("_adaptive_avg_pool2d", &adaptive_avg_pool<_ops::_adaptive_avg_pool2d, 2>);
  aten.impl("_adaptive_avg_pool3d", &adaptive_avg_pool<_ops::_adaptive_avg_pool3d, 3>);
  aten.impl("_adaptive_avg_pool2d_backward", &adaptive_avg_pool_backward<_ops::_adaptive_avg_pool2d_backward, 2>);
  aten.impl("_adaptive_avg_pool3d_backward", &adaptive_avg_pool_backward<_ops::_adaptive_avg_pool3d_backward, 3>);
}

} // namespace tb::ops::jit
