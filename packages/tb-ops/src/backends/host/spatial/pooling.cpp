// Adaptive average pooling, one-dimensional maximum pooling and reflection padding.
#include <ATen/core/grad_mode.h>
#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/ops/max_pool1d_native.h>
#include <ATen/ops/reflection_pad2d_backward_native.h>
#include <ATen/ops/reflection_pad2d_native.h>
#include <ATen/ops/zero_native.h>

#include "backends/host/host.h"
#include "backends/host/spatial/padding.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

void adaptive_kernel(const Tensor &self, c10::IntArrayRef size, Tensor &out) {
  at::native::adaptive_avg_pool2d_kernel(c10::kCPU, out, self, size);
}

Tensor adaptive_avg_pool2d(const Tensor &self, c10::IntArrayRef size) {
  TORCH_CHECK(size.size() == 2, "adaptive_avg_pool2d: output_size must be 2");
  const int64_t dims = self.dim();
  TORCH_CHECK(dims == 3 || dims == 4, "adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got ", self.sizes());
  for (const int64_t i : {-2, -1})
    TORCH_CHECK(self.size(i) > 0,
                "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input has "
                "sizes ",
                self.sizes(), " with dimension ", i + dims, " being empty");
  c10::DimVector sizes(self.sizes().begin(), self.sizes().end() - 2);
  sizes.append(size.begin(), size.end());
  Tensor out = empty_formatted(self, sizes, self.scalar_type(), self.suggest_memory_format());
  if (out.numel() > 0)
    launch_kernel<"aten::_adaptive_avg_pool2d", adaptive_kernel>(device_number(self), self, size, out);
  return out;
}

void adaptive_backward_kernel(const Tensor &grad, Tensor &out) {
  at::native::zero_(out); // the kernel adds
  at::native::adaptive_avg_pool2d_backward_kernel(c10::kCPU, out, grad);
}

Tensor adaptive_avg_pool2d_backward(const Tensor &grad, const Tensor &self) {
  const int64_t dims = grad.dim();
  for (int64_t i = 1; i < dims; i++)
    TORCH_CHECK(grad.size(i) > 0,
                "adaptive_avg_pool2d_backward(): Expected grad_output to have non-zero size for non-batch dimensions, "
                "but grad_output has sizes ",
                grad.sizes(), " with dimension ", i, " being empty");
  TORCH_CHECK(dims == 3 || dims == 4, "adaptive_avg_pool2d_backward(): Expected 3D or 4D tensor, but got ",
              self.sizes());
  TORCH_CHECK(self.dtype() == grad.dtype(), "expected dtype ", self.dtype(), " for `grad_output` but got dtype ",
              grad.dtype());
  const c10::DeviceIndex device = common_device("aten::_adaptive_avg_pool2d_backward", {&grad, &self});
  Tensor out = empty_formatted(self, self.sizes(), self.scalar_type(), self.suggest_memory_format());
  launch_kernel<"aten::_adaptive_avg_pool2d_backward", adaptive_backward_kernel>(device, grad, out);
  return out;
}

// Without derivatives the CPU has a separate kernel, whose result is contiguous whatever the input's strides are.
Tensor max_pool1d(const Tensor &self, c10::IntArrayRef kernel, c10::IntArrayRef stride, c10::IntArrayRef padding,
                  c10::IntArrayRef dilation, bool ceil) {
  const bool derivatives = (c10::GradMode::is_enabled() && self.requires_grad()) || self._fw_grad(0).defined();
  return at::native::max_pool1d(derivatives ? self : self.contiguous(), kernel, stride, padding, dilation, ceil);
}

void check_reflection(const Tensor &self, c10::IntArrayRef padding) {
  const int64_t dims = self.dim();
  TORCH_CHECK(padding.size() == 4, "padding size is expected to be 4, but got: ", padding.size());
  TORCH_CHECK((dims == 3 && self.size(0) != 0 && self.size(1) != 0 && self.size(2) != 0) ||
                  (dims == 4 && self.size(1) != 0 && self.size(2) != 0 && self.size(3) != 0),
              "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
              "input, but got: ",
              self.sizes());
  for (const int64_t i : {0, 1})
    TORCH_CHECK(padding[2 * i] < self.size(-1 - i) && padding[2 * i + 1] < self.size(-1 - i),
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (",
                padding[2 * i], ", ", padding[2 * i + 1], ") at dimension ", dims - 1 - i, " of input ", self.sizes());
}

void reflection_kernel(const Tensor &self, c10::IntArrayRef padding, Tensor &out) {
  at::native::reflection_pad2d_out_cpu(self, padding, out);
}

Tensor reflection_pad2d(const Tensor &self, c10::IntArrayRef padding) {
  check_reflection(self, padding);
  c10::DimVector sizes(self.sizes());
  sizes.end()[-1] += padding[0] + padding[1];
  sizes.end()[-2] += padding[2] + padding[3];
  TORCH_CHECK(sizes.end()[-1] >= 1 || sizes.end()[-2] >= 1, "input (H: ", self.size(-2), ", W: ", self.size(-1),
              ") is too small. Calculated output H: ", sizes.end()[-2], " W: ", sizes.end()[-1]);
  Tensor out = self.dim() == 4 ? empty_formatted(self, sizes, self.scalar_type(), self.suggest_memory_format())
                               : empty_on(self, sizes, self.scalar_type());
  launch_kernel<"aten::reflection_pad2d", reflection_kernel>(device_number(self), self, padding, out);
  return out;
}

void reflection_backward_kernel(const Tensor &grad, const Tensor &self, c10::IntArrayRef padding, Tensor &out) {
  at::native::zero_(out);
  at::native::reflection_pad2d_backward_out_cpu(grad, self, padding, out);
}

Tensor reflection_pad2d_backward(const Tensor &grad, const Tensor &self, c10::IntArrayRef padding) {
  check_reflection(self, padding);
  const c10::DeviceIndex device = common_device("aten::reflection_pad2d_backward", {&grad, &self});
  Tensor out = empty_formatted(self, self.sizes(), self.scalar_type(), self.suggest_memory_format());
  launch_kernel<"aten::reflection_pad2d_backward", reflection_backward_kernel>(device, grad, self, padding, out);
  return out;
}

} // namespace

void register_pooling(torch::Library &aten) {
  static auto *autograd =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  autograd->impl("max_pool1d", &max_pool1d);
  aten.impl("_adaptive_avg_pool2d", &adaptive_avg_pool2d);
  aten.impl("_adaptive_avg_pool2d_backward", &adaptive_avg_pool2d_backward);
  register_padding(aten);
  aten.impl("reflection_pad2d", &reflection_pad2d);
  aten.impl("reflection_pad2d_backward", &reflection_pad2d_backward);
}

} // namespace tb::ops::host
