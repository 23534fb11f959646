// Layer normalization, forward and backward.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/layer_norm.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <ATen/ops/zero_native.h>

#include "backends/host/host.h"
#include "backends/host/normalization/normalization.h"
#include "dispatch/call_checked.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

void layer_norm_kernel(const Tensor &input, const Tensor &weight, const Tensor &bias, int64_t rows, int64_t columns,
                       double eps, Tensor &out, Tensor &mean, Tensor &rstd) {
  const auto x = input.expect_contiguous();
  const Tensor w = weight.defined() ? weight.contiguous() : weight, b = bias.defined() ? bias.contiguous() : bias;
  at::native::LayerNormKernel(c10::kCPU, *x, w, b, rows, columns, eps, &out, &mean, &rstd);
}

ThreeTensors native_layer_norm(const Tensor &input, c10::IntArrayRef normalized_shape,
                               const OptionalTensor &weight_given, const OptionalTensor &bias_given, double eps) {
  const Tensor &weight = value_or_undefined(weight_given), &bias = value_or_undefined(bias_given);
  if (!c10::isFloatingType(input.scalar_type())) // even if there are no rows to compute
    return call_checked<at::_ops::native_layer_norm>(input, normalized_shape, weight_given, bias_given, eps);
  const c10::ScalarType statistics = parameter_type(input, weight, bias);
  const auto [rows, columns] = at::native::_check_layer_norm_inputs(input, normalized_shape, weight, bias);
  const c10::DeviceIndex device = common_device("aten::native_layer_norm", {&input, &weight, &bias});
  c10::DimVector outer(input.sizes());
  for (size_t i = outer.size() - normalized_shape.size(); i < outer.size(); i++) outer[i] = 1;
  Tensor out = empty_on(input, input.sizes(), input.scalar_type());
  Tensor mean = empty_on(input, outer, statistics), rstd = empty_on(input, outer, statistics);
  if (rows > 0)
    launch_kernel<"aten::native_layer_norm", layer_norm_kernel>(device, input, weight, bias, rows, columns, eps, out,
                                                                mean, rstd);
  return {std::move(out), std::move(mean), std::move(rstd)};
}

void layer_norm_backward_kernel(const Tensor &grad, const Tensor &input, const Tensor &mean, const Tensor &rstd,
                                const Tensor &weight, int64_t rows, int64_t columns, Tensor &grad_input,
                                Tensor &grad_weight, Tensor &grad_bias) {
  if (rows == 0) {
    if (grad_weight.defined()) at::native::zero_(grad_weight);
    if (grad_bias.defined()) at::native::zero_(grad_bias);
    return;
  }
  const auto x = input.expect_contiguous();
  const Tensor w = weight.defined() ? weight.contiguous() : weight;
  at::native::LayerNormBackwardKernel(c10::kCPU, grad, *x, mean, rstd, w, rows, columns, &grad_input, &grad_weight,
                                      &grad_bias);
}

ThreeTensors native_layer_norm_backward(const Tensor &grad, const Tensor &input, c10::IntArrayRef normalized_shape,
                                        const Tensor &mean, const Tensor &rstd, const OptionalTensor &weight_given,
                                        const OptionalTensor &bias_given, std::array<bool, 3> mask) {
  const Tensor &weight = value_or_undefined(weight_given), &bias = value_or_undefined(bias_given);
  const auto [rows, columns] = at::native::_check_layer_norm_inputs(input, normalized_shape, weight, bias);
  const c10::DeviceIndex device =
      common_device("aten::native_layer_norm_backward", {&grad, &input, &mean, &rstd, &weight});
  Tensor grad_input, grad_weight, grad_bias;
  if (mask[0]) grad_input = empty_on(input, input.sizes(), input.scalar_type());
  if (mask[1]) grad_weight = empty_on(input, weight.sizes(), weight.scalar_type());
  if (mask[2]) grad_bias = empty_on(input, bias.sizes(), bias.scalar_type());
  launch_kernel<"aten::native_layer_norm_backward", layer_norm_backward_kernel>(
      device, grad, input, mean, rstd, weight, rows, columns, grad_input, grad_weight, grad_bias);
  return {std::move(grad_input), std::move(grad_weight), std::move(grad_bias)};
}

} // namespace

void register_layer_norm(torch::Library &aten) {
  aten.impl("native_layer_norm", &native_layer_norm);
  aten.impl("native_layer_norm_backward", &native_layer_norm_backward);
}

} // namespace tb::ops::host
