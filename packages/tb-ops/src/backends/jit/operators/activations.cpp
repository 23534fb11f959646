// Activations with numbers, and their gradients.
#include "backends/jit/operators/elementwise.h"

#include <ATen/native/Activation.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/elu_backward_meta.h>
#include <ATen/ops/elu_backward_ops.h>
#include <ATen/ops/elu_meta.h>
#include <ATen/ops/elu_ops.h>
#include <ATen/ops/hardsigmoid_backward_meta.h>
#include <ATen/ops/hardsigmoid_backward_ops.h>
#include <ATen/ops/hardsigmoid_meta.h>
#include <ATen/ops/hardsigmoid_ops.h>
#include <ATen/ops/hardswish_backward_native.h>
#include <ATen/ops/hardswish_backward_ops.h>
#include <ATen/ops/hardswish_native.h>
#include <ATen/ops/hardswish_ops.h>
#include <ATen/ops/hardtanh_backward_native.h>
#include <ATen/ops/hardtanh_backward_ops.h>
#include <ATen/ops/hardtanh_native.h>
#include <ATen/ops/hardtanh_ops.h>
#include <ATen/ops/leaky_relu_backward_meta.h>
#include <ATen/ops/leaky_relu_backward_ops.h>
#include <ATen/ops/leaky_relu_meta.h>
#include <ATen/ops/leaky_relu_ops.h>
#include <ATen/ops/log_sigmoid_backward_ops.h>
#include <ATen/ops/log_sigmoid_forward_ops.h>
#include <ATen/ops/mish_backward_native.h>
#include <ATen/ops/mish_backward_ops.h>
#include <ATen/ops/mish_meta.h>
#include <ATen/ops/mish_ops.h>
#include <ATen/ops/softplus_backward_meta.h>
#include <ATen/ops/softplus_backward_ops.h>
#include <ATen/ops/softplus_meta.h>
#include <ATen/ops/softplus_ops.h>

#include "tensor/outputs.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;

constexpr auto elu_backward = [](const Tensor &, const c10::Scalar &alpha, const c10::Scalar &scale,
                                 const c10::Scalar &input_scale, bool of_result, const Tensor &) {
  return Work{of_result ? "EluBackward<true>" : "EluBackward<false>", {alpha, scale, input_scale}};
};

constexpr auto leaky_relu_backward = [](const Tensor &, const Tensor &, const c10::Scalar &slope, bool) {
  return Work{"LeakyReluBackward", {slope}};
};

template <Name functor> void of_stub(at::TensorIterator &iterator) {
  pointwise(iterator, functor.value, iterator.common_dtype());
}

void hardtanh_backward(at::TensorIterator &iterator, const c10::Scalar &low, const c10::Scalar &high) {
  pointwise(iterator, "HardTanhBackward", iterator.common_dtype(), {low, high});
}

bool floating(std::initializer_list<const Tensor *> tensors) {
  for (const Tensor *tensor : tensors)
    if (!c10::isFloatingType(tensor->scalar_type())) return false;
  return supported(tensors);
}

void run(const char *functor, const Tensor &out, std::initializer_list<const Tensor *> inputs) {
  at::TensorIteratorConfig config;
  config.resize_outputs(false).add_output(out);
  for (const Tensor *input : inputs) config.add_const_input(*input);
  pointwise(config.build(), functor, out.scalar_type());
}

// The buffer has exp(-|x|), as the CPU's has.
std::tuple<Tensor &, Tensor &> log_sigmoid_out(const Tensor &self, Tensor &out, Tensor &buffer) {
  if (!floating({&self, &out, &buffer}) || out.scalar_type() != self.scalar_type() ||
      buffer.scalar_type() != self.scalar_type())
    return call_fallback<at::_ops::log_sigmoid_forward_output>(self, out, buffer);
  common_device("aten::log_sigmoid_forward", {&self, &out, &buffer});
  out.resize_as_(self);
  buffer.resize_as_(self);
  run("LogSigmoidBuffer", buffer, {&self});
  run("LogSigmoid", out, {&self});
  return {out, buffer};
}

std::tuple<Tensor, Tensor> log_sigmoid(const Tensor &self) {
  if (!floating({&self})) return call_fallback<at::_ops::log_sigmoid_forward>(self);
  Tensor out = empty_preserving(self, self.scalar_type()), buffer = empty_preserving(self, self.scalar_type());
  log_sigmoid_out(self, out, buffer);
  return {std::move(out), std::move(buffer)};
}

Tensor &log_sigmoid_backward_out(const Tensor &grad, const Tensor &self, const Tensor &buffer, Tensor &out) {
  const c10::ScalarType type = self.scalar_type();
  if (!floating({&grad, &self, &buffer, &out}) || grad.scalar_type() != type || buffer.scalar_type() != type ||
      out.scalar_type() != type || buffer.sizes() != self.sizes() || grad.sizes() != self.sizes())
    return call_fallback<at::_ops::log_sigmoid_backward_grad_input>(grad, self, buffer, out);
  common_device("aten::log_sigmoid_backward", {&grad, &self, &buffer, &out});
  at::native::resize_output(out, grad.sizes());
  run("LogSigmoidBackward", out, {&grad, &self, &buffer});
  return out;
}

Tensor log_sigmoid_backward(const Tensor &grad, const Tensor &self, const Tensor &buffer) {
  if (!floating({&grad})) return call_fallback<at::_ops::log_sigmoid_backward>(grad, self, buffer);
  Tensor out = empty_preserving(grad, grad.scalar_type());
  log_sigmoid_backward_out(grad, self, buffer, out);
  return out;
}

bool floats(c10::ScalarType type) { return c10::isFloatingType(type); }

template <class Op, typename Op::schema *function> void add_floating(torch::Library &aten) {
  add_supported<Op, function, &floats>(aten);
}

} // namespace

void register_activations(torch::Library &aten) {
  using namespace at;
  native::hardswish_stub.set_privateuse1_dispatch_ptr(&of_stub<"HardSwish">);
  native::hardswish_backward_stub.set_privateuse1_dispatch_ptr(&of_stub<"HardSwishBackward">);
  native::mish_backward_stub.set_privateuse1_dispatch_ptr(&of_stub<"MishBackward">);
  native::hardtanh_backward_stub.set_privateuse1_dispatch_ptr(&jit::hardtanh_backward);
  add<_ops::elu_out, meta::structured_elu, plain<"Elu">>(aten);
  add<_ops::elu_backward_grad_input, meta::structured_elu_backward, jit::elu_backward>(aten);
  add<_ops::leaky_relu_out, meta::structured_leaky_relu, plain<"LeakyRelu">>(aten);
  add<_ops::leaky_relu_backward_grad_input, meta::structured_leaky_relu_backward, jit::leaky_relu_backward>(aten);
  add<_ops::softplus_out, meta::structured_softplus, plain<"Softplus">>(aten);
  add<_ops::softplus_backward_grad_input, meta::structured_softplus_backward, plain<"SoftplusBackward">>(aten);
  add<_ops::mish_out, meta::structured_mish, plain<"Mish">>(aten);
  add<_ops::hardsigmoid_out, meta::structured_hardsigmoid, plain<"HardSigmoid">>(aten);
  add<_ops::hardsigmoid_backward_grad_input, meta::structured_hardsigmoid_backward, plain<"HardSigmoidBackward">>(aten);
  add_floating<_ops::hardswish, &native::hardswish>(aten);
  add_floating<_ops::hardswish_, &native::hardswish_>(aten);
  add_floating<_ops::hardswish_out, &native::hardswish_out>(aten);
  add_floating<_ops::hardswish_backward, &native::hardswish_backward>(aten);
  add_supported<_ops::hardtanh, &native::hardtanh>(aten);
  add_supported<_ops::hardtanh_, &native::hardtanh_>(aten);
  add_supported<_ops::hardtanh_out, &native::hardtanh_out>(aten);
  add_floating<_ops::hardtanh_backward, &native::hardtanh_backward>(aten);
  add_floating<_ops::hardtanh_backward_grad_input, &native::hardtanh_backward_out>(aten);
  add_floating<_ops::mish_backward, &native::mish_backward>(aten);
  aten.impl("log_sigmoid_forward", &log_sigmoid);
  aten.impl("log_sigmoid_forward.output", &log_sigmoid_out);
  aten.impl("log_sigmoid_backward", &jit::log_sigmoid_backward);
  aten.impl("log_sigmoid_backward.grad_input", &log_sigmoid_backward_out);
}

} // namespace tb::ops::jit
