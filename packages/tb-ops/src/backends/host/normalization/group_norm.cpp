// Group normalization, forward and backward.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/group_norm.h>
#include <ATen/ops/native_group_norm_ops.h>

#include "backends/host/host.h"
#include "backends/host/normalization/normalization.h"
#include "dispatch/call_checked.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

void group_norm_kernel(const Tensor &input, const Tensor &weight, const Tensor &bias, int64_t n, int64_t c,
                       int64_t inner, int64_t group, double eps, Tensor &out, Tensor &mean, Tensor &rstd) {
  at::native::GroupNormKernel(c10::kCPU, input, weight, bias, n, c, inner, group, eps, out, mean, rstd);
}

ThreeTensors native_group_norm(const Tensor &input, const OptionalTensor &weight_given,
                               const OptionalTensor &bias_given, int64_t n, int64_t c, int64_t inner, int64_t group,
                               double eps) {
  const Tensor &weight = value_or_undefined(weight_given), &bias = value_or_undefined(bias_given);
  const c10::DeviceIndex device = common_device("aten::native_group_norm", {&input, &weight, &bias});
  const c10::MemoryFormat format = input.suggest_memory_format();
  if (!c10::isFloatingType(input.scalar_type()) || input.numel() != n * c * inner || !input.is_contiguous(format) ||
      group <= 0 || c % group != 0 || !by_channel(c, {&weight, &bias}))
    return call_checked<at::_ops::native_group_norm>(input, weight_given, bias_given, n, c, inner, group, eps);
  const c10::ScalarType statistics = parameter_type(input, weight, bias);
  Tensor out = empty_formatted(input, input.sizes(), input.scalar_type(), format);
  Tensor mean = empty_on(input, {n, group}, statistics), rstd = empty_on(input, {n, group}, statistics);
  launch_kernel<"aten::native_group_norm", group_norm_kernel>(device, input, weight, bias, n, c, inner, group, eps, out,
                                                              mean, rstd);
  return {std::move(out), std::move(mean), std::move(rstd)};
}

void group_norm_backward_kernel(const Tensor &grad, const Tensor &input, const Tensor &mean, const Tensor &rstd,
                                const Tensor &weight, int64_t n, int64_t c, int64_t inner, int64_t group,
                                Tensor &grad_input, Tensor &grad_weight, Tensor &grad_bias) {
  const Tensor dense = grad.contiguous(input.suggest_memory_format());
  at::native::GroupNormBackwardKernel(c10::kCPU, dense, input, mean, rstd, weight, n, c, inner, group, grad_input,
                                      grad_weight, grad_bias);
}

ThreeTensors native_group_norm_backward(const Tensor &grad, const Tensor &input, const Tensor &mean, const Tensor &rstd,
                                        const OptionalTensor &weight_given, int64_t n, int64_t c, int64_t inner,
                                        int64_t group, std::array<bool, 3> mask) {
  const Tensor &weight = value_or_undefined(weight_given);
  TORCH_CHECK(grad.scalar_type() == input.scalar_type(), "Expected scalar types of X and dY are same.");
  if (at::native::is_mixed_type(input, mean, rstd)) at::native::check_mixed_data_type(input, mean, rstd);
  const c10::DeviceIndex device =
      common_device("aten::native_group_norm_backward", {&grad, &input, &mean, &rstd, &weight});
  Tensor grad_input, grad_weight, grad_bias;
  if (mask[0]) grad_input = empty_formatted(input, input.sizes(), input.scalar_type(), input.suggest_memory_format());
  if (mask[1]) grad_weight = empty_on(input, weight.sizes(), weight.scalar_type());
  if (mask[2]) grad_bias = empty_on(input, weight.sizes(), weight.scalar_type());
  launch_kernel<"aten::native_group_norm_backward", group_norm_backward_kernel>(
      device, grad, input, mean, rstd, weight, n, c, inner, group, grad_input, grad_weight, grad_bias);
  return {std::move(grad_input), std::move(grad_weight), std::move(grad_bias)};
}

} // namespace

void register_group_norm(torch::Library &aten) {
  aten.impl("native_group_norm", &native_group_norm);
  aten.impl("native_group_norm_backward", &native_group_norm_backward);
}

} // namespace tb::ops::host
