// Activation functions that PyTorch's code generator does not generate, and some that it does, divided among threads.
#include "backends/host/iterator_stub.h"

#include <ATen/native/Activation.h>
#include <ATen/ops/clamp_min_cpu_dispatch.h>
#include <ATen/ops/clamp_min_ops.h>
#include <ATen/ops/elu_cpu_dispatch.h>
#include <ATen/ops/gelu_backward_cpu_dispatch.h>
#include <ATen/ops/gelu_cpu_dispatch.h>
#include <ATen/ops/glu_backward_native.h>
#include <ATen/ops/log_sigmoid_backward_native.h>
#include <ATen/ops/log_sigmoid_backward_ops.h>
#include <ATen/ops/log_sigmoid_forward_native.h>
#include <ATen/ops/mish_cpu_dispatch.h>
#include <ATen/ops/relu_native.h>
#include <ATen/ops/sigmoid_cpu_dispatch.h>
#include <ATen/ops/silu_backward_cpu_dispatch.h>
#include <ATen/ops/silu_cpu_dispatch.h>
#include <ATen/ops/softplus_cpu_dispatch.h>

#include "backends/host/elementwise/divided.h"
#include "backends/host/host.h"
#include "backends/host/overrides.h"
#include "dispatch/call_checked.h"
#include "intraop/thread_policy.h"
#include "structured/structured.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Scalar;
using at::Tensor;

void relu_kernel(const Tensor &self, Tensor &out) { at::cpu::clamp_min_out(out, self, 0); }

// PyTorch's own function refuses booleans, because the type of its error differs between versions.
Tensor relu(const Tensor &self) {
  if (self.scalar_type() == c10::kBool) return at::native::relu(self);
  Tensor out = empty_pointwise(self, self.scalar_type());
  launch_kernel<"aten::relu", relu_kernel>(device_number(self), self, out);
  return out;
}

Tensor &relu_in_place(Tensor &self) {
  if (self.scalar_type() == c10::kBool) return at::native::relu_(self);
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

// The buffer keeps what the backward pass needs. Both results are contiguous, as on the CPU.
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
  if (grad.sizes() != self.sizes() || buffer.sizes() != self.sizes() || grad.scalar_type() != self.scalar_type())
    return call_checked<at::_ops::log_sigmoid_backward>(grad, self, buffer); // returns or raises what the CPU does
  Tensor out = empty_preserving(grad, grad.scalar_type());
  launch_kernel<"aten::log_sigmoid_backward", log_sigmoid_backward_kernel>(device, grad, self, buffer, out);
  return out;
}

} // namespace

namespace cpu {

void gelu_outf(const Tensor &self, c10::string_view approximate, Tensor &out) {
  in_parts(1, [&](Tensor &to, const Tensor &from) { at::cpu::gelu_outf(from, approximate, to); }, out, self);
}

void gelu_backward_outf(const Tensor &grad, const Tensor &self, c10::string_view approximate, Tensor &out) {
  const auto run = [&](Tensor &to, const Tensor &above, const Tensor &from) {
    at::cpu::gelu_backward_outf(above, from, approximate, to);
  };
  in_parts(3, run, out, grad, self);
}

void sigmoid_outf(const Tensor &self, Tensor &out) {
  in_parts(.5, [](Tensor &to, const Tensor &from) { at::cpu::sigmoid_outf(from, to); }, out, self);
}

void silu_outf(const Tensor &self, Tensor &out) {
  in_parts(.5, [](Tensor &to, const Tensor &from) { at::cpu::silu_outf(from, to); }, out, self);
}

void elu_outf(const Tensor &self, const Scalar &alpha, const Scalar &scale, const Scalar &input_scale, Tensor &out) {
  const auto run = [&](Tensor &to, const Tensor &from) { at::cpu::elu_outf(from, alpha, scale, input_scale, to); };
  in_parts(1, run, out, self);
}

void mish_outf(const Tensor &self, Tensor &out) {
  in_parts(3, [](Tensor &to, const Tensor &from) { at::cpu::mish_outf(from, to); }, out, self);
}

void softplus_outf(const Tensor &self, const Scalar &beta, const Scalar &threshold, Tensor &out) {
  const auto run = [&](Tensor &to, const Tensor &from) { at::cpu::softplus_outf(from, beta, threshold, to); };
  in_parts(1.5, run, out, self);
}

void silu_backward_outf(const Tensor &grad, const Tensor &self, Tensor &out) {
  const auto run = [](Tensor &to, const Tensor &above, const Tensor &from) {
    at::cpu::silu_backward_outf(above, from, to);
  };
  in_parts(1, run, out, grad, self);
}

} // namespace cpu

void register_activations(torch::Library &aten) {
  enter_stub<"aten::hardtanh_backward", at::native::hardtanh_backward_stub, Types::promote_all>();
  enter_stub<"aten::hardswish", at::native::hardswish_stub>();
  enter_stub<"aten::hardswish_backward", at::native::hardswish_backward_stub, Types::promote_all>();
  enter_stub<"aten::mish_backward", at::native::mish_backward_stub, Types::promote_all>();
  enter_stub<"aten::_prelu_kernel", at::native::prelu_stub>();
  enter_stub<"aten::_prelu_kernel_backward", at::native::prelu_backward_stub>();
  aten.impl("relu", &relu);
  aten.impl("relu_", &relu_in_place);
  aten.impl("glu_backward", &glu_backward);
  aten.impl("log_sigmoid_forward", &log_sigmoid_forward);
  aten.impl("log_sigmoid_backward", &log_sigmoid_backward);
}

} // namespace tb::ops::host
