// Activation functions that PyTorch does not generate.
#include "kernels/iterator_stub.h"

#include <ATen/native/Activation.h>
#include <ATen/ops/clamp_min_cpu_dispatch.h>
#include <ATen/ops/clamp_min_ops.h>
#include <ATen/ops/glu_backward_native.h>
#include <ATen/ops/log_sigmoid_backward_native.h>
#include <ATen/ops/log_sigmoid_forward_native.h>

#include "kernels/kernels.h"
#include "kernels/output.h"

namespace tb {
namespace {

using at::Tensor;

void relu_kernel(const Tensor &self, Tensor &out) { at::cpu::clamp_min_out(out, self, 0); }

Tensor relu(const Tensor &self) {
  TORCH_CHECK(self.scalar_type() != c10::kBool, "Boolean inputs not supported for relu");
  Tensor out = empty_pointwise(self, self.scalar_type());
  launch_kernel<"aten::relu", relu_kernel>(device_number(self), self, out);
  return out;
}

Tensor &relu_in_place(Tensor &self) {
  TORCH_CHECK(self.scalar_type() != c10::kBool, "Boolean inputs not supported for relu");
  return at::_ops::clamp_min_::call(self, 0);
}

void glu_backward_kernel(const Tensor &grad, const Tensor &self, int64_t dim, Tensor &out) {
  at::native::glu_backward_cpu_out(grad, self, dim, out);
}

Tensor glu_backward(const Tensor &grad, const Tensor &self, int64_t dim) {
  const int64_t wrapped = c10::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  TORCH_CHECK(self.size(wrapped) % 2 == 0, "Halving dimension must be even, but dimension ", wrapped, " is size ",
              self.size(wrapped));
  const c10::DeviceIndex device = common_device("aten::glu_backward", {&grad, &self});
  Tensor out = empty_on(self, self.sizes(), self.scalar_type());
  launch_kernel<"aten::glu_backward", glu_backward_kernel>(device, grad, self, dim, out);
  return out;
}

void log_sigmoid_kernel(const Tensor &self, Tensor &out, Tensor &buffer) {
  at::native::log_sigmoid_forward_out_cpu(self, out, buffer);
}

// The buffer keeps what the backward needs; the CPU lays both out contiguously.
std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor &self) {
  Tensor out = empty_on(self, self.sizes(), self.scalar_type());
  Tensor buffer = empty_on(self, self.sizes(), self.scalar_type());
  launch_kernel<"aten::log_sigmoid_forward", log_sigmoid_kernel>(device_number(self), self, out, buffer);
  return {std::move(out), std::move(buffer)};
}

void log_sigmoid_backward_kernel(const Tensor &grad, const Tensor &self, const Tensor &buffer, Tensor &out) {
  at::native::log_sigmoid_backward_cpu_out(grad, self, buffer, out);
}

Tensor log_sigmoid_backward(const Tensor &grad, const Tensor &self, const Tensor &buffer) {
  const c10::DeviceIndex device = common_device("aten::log_sigmoid_backward", {&grad, &self, &buffer});
  Tensor out = empty_preserving(grad, grad.scalar_type());
  launch_kernel<"aten::log_sigmoid_backward", log_sigmoid_backward_kernel>(device, grad, self, buffer, out);
  return out;
}

} // namespace

void register_activations(torch::Library &aten) {
  enter_stub<"aten::hardtanh_backward", at::native::hardtanh_backward_stub, Types::promote_all>();
  enter_stub<"aten::hardswish", at::native::hardswish_stub>();
  enter_stub<"aten::hardswish_backward", at::native::hardswish_backward_stub, Types::promote_all>();
  enter_stub<"aten::mish_backward", at::native::mish_backward_stub, Types::promote_all>();
  enter_stub<"aten::_prelu_kernel", at::native::prelu_stub>();
  enter_stub<"aten::_prelu_kernel_backward", at::native::prelu_backward_stub>();
  aten.impl("relu", TORCH_FN(relu));
  aten.impl("relu_", TORCH_FN(relu_in_place));
  aten.impl("glu_backward", TORCH_FN(glu_backward));
  aten.impl("log_sigmoid_forward", TORCH_FN(log_sigmoid_forward));
  aten.impl("log_sigmoid_backward", TORCH_FN(log_sigmoid_backward));
}

} // namespace tb
