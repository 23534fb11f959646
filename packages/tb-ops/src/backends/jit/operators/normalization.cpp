// Softmax, its logarithm and layer normalisation, forward and backward.
#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_meta.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/native_layer_norm_backward_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>

namespace tb::ops::jit {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Returns the numbers of elements before, along and after a dimension.
kernels::RowArguments rows_along(const Tensor &tensor, int64_t dim) {
  kernels::RowArguments arguments{};
  arguments.outer = arguments.size = arguments.inner = 1;
  if (tensor.dim() == 0) return arguments;
  const int64_t along = at::maybe_wrap_dim(dim, tensor.dim());
  for (int64_t d = 0; d < tensor.dim(); d++)
    (d < along ? arguments.outer : d == along ? arguments.size : arguments.inner) *= tensor.size(d);
  return arguments;
}

bool floating(const Tensor &tensor) { return c10::isFloatingType(tensor.scalar_type()); }

void launch_along(const char *name, const char *logarithm, c10::ScalarType stored, kernels::RowArguments arguments,
                  const Tensor &result) {
  if (result.numel() == 0) return;
  arguments.result = operand_of(result);
  const std::string body =
      std::string(name) + "<" + type_name(stored) + ", " + type_name(result.scalar_type()) + ", " + logarithm + ">";
  launch_rows(device_number(result), {"softmax.cuh", body, "RowArguments", 256, true},
              arguments.outer * arguments.inner, arguments);
}

template <class Op, class Meta, Name logarithm>
Tensor &softmax(const Tensor &self, int64_t dim, bool half_to_float, Tensor &out) {
  if (!supported({&self, &out}) || !floating(self)) return call_fallback<Op>(self, dim, half_to_float, out);
  Out<Meta> op(out);
  op.meta(self, dim, half_to_float);
  const Tensor input = contiguous(self);
  with_contiguous(out, [&](const Tensor &to) {
    kernels::RowArguments arguments = rows_along(input, dim);
    arguments.first = operand_of(input);
    launch_along("softmax", logarithm.value, input.scalar_type(), arguments, to);
  });
  return out;
}

template <class Op, class Meta, Name logarithm>
Tensor &softmax_backward(const Tensor &grad, const Tensor &output, int64_t dim, c10::ScalarType type, Tensor &out) {
  if (!supported({&grad, &output, &out}) || grad.scalar_type() != output.scalar_type())
    return call_fallback<Op>(grad, output, dim, type, out);
  Out<Meta> op(out);
  op.meta(grad, output, dim, type);
  const Tensor gradient = contiguous(grad), forward = contiguous(output);
  with_contiguous(out, [&](const Tensor &to) {
    kernels::RowArguments arguments = rows_along(forward, dim);
    arguments.first = operand_of(gradient);
    arguments.second = operand_of(forward);
    launch_along("softmax_backward", logarithm.value, forward.scalar_type(), arguments, to);
  });
  return out;
}

// ---- layer normalisation ----------------------------------------------------------------------------------------

// The moments of 16-bit types are in single precision.
c10::ScalarType moments_type(c10::ScalarType type) { return type == c10::kDouble ? c10::kDouble : c10::kFloat; }

Kernel layer_norm_kernel(const char *name, c10::ScalarType type, bool synchronizing) {
  const std::string body = std::string(name) + "<" + type_name(type) + ", " + type_name(moments_type(type)) + ">";
  return {"layer_norm.cuh", body, "LayerNormArguments", 256, synchronizing};
}

bool same_types(const Tensor &input, std::initializer_list<const Tensor *> tensors) {
  for (const Tensor *tensor : tensors)
    if (tensor->defined() && tensor->scalar_type() != input.scalar_type()) return false;
  return floating(input) && supported({&input});
}

kernels::LayerNormArguments sizes_of(const Tensor &input, c10::IntArrayRef shape) {
  kernels::LayerNormArguments arguments{};
  arguments.size = c10::multiply_integers(shape);
  arguments.rows = arguments.size ? input.numel() / arguments.size : 0;
  return arguments;
}

void check_shape(const Tensor &input, c10::IntArrayRef shape, const Tensor &weight, const Tensor &bias) {
  const auto axis = input.dim() - static_cast<int64_t>(shape.size());
  TORCH_CHECK(!shape.empty() && axis >= 0 && input.sizes().slice(static_cast<size_t>(axis)) == shape,
              "Given normalized_shape=", shape, ", expected input with shape [*, ", shape, "], but got input of size",
              input.sizes());
  for (const Tensor *one : {&weight, &bias})
    TORCH_CHECK(!one->defined() || one->sizes() == shape,
                "Expected weight and bias to be of same shape as "
                "normalized_shape, but got ",
                one->sizes(), " and normalized_shape = ", shape);
}

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor &input, c10::IntArrayRef shape, const OptionalTensor &given,
                                              const OptionalTensor &shift, double epsilon) {
  const Tensor weight = given.value_or(Tensor()), bias = shift.value_or(Tensor());
  if (!same_types(input, {&weight, &bias}))
    return call_fallback<at::_ops::native_layer_norm>(input, shape, given, shift, epsilon);
  check_shape(input, shape, weight, bias);
  const c10::DeviceIndex device = common_device("aten::native_layer_norm", {&input, &weight, &bias});
  at::DimVector leading(input.sizes().begin(), input.sizes().end());
  std::fill(leading.end() - static_cast<std::ptrdiff_t>(shape.size()), leading.end(), 1);
  const c10::ScalarType type = input.scalar_type();
  Tensor out = empty(input.sizes(), {}, type, device), mean = empty(leading, {}, moments_type(type), device),
         rstd = empty(leading, {}, moments_type(type), device);
  const Tensor from = contiguous(input), scale = contiguous(weight), offset = contiguous(bias);
  kernels::LayerNormArguments arguments = sizes_of(input, shape);
  arguments.input = from.const_data_ptr(), arguments.weight = data_of(scale), arguments.bias = data_of(offset);
  arguments.mean = mean.mutable_data_ptr(), arguments.rstd = rstd.mutable_data_ptr();
  arguments.output = out.mutable_data_ptr(), arguments.epsilon = epsilon;
  launch_rows(device, layer_norm_kernel("layer_norm", type, true), arguments.rows, arguments);
  return {std::move(out), std::move(mean), std::move(rstd)};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor &grad, const Tensor &input, c10::IntArrayRef shape,
                                                       const Tensor &mean, const Tensor &rstd,
                                                       const OptionalTensor &given, const OptionalTensor &shift,
                                                       std::array<bool, 3> wanted) {
  const Tensor weight = given.value_or(Tensor()), bias = shift.value_or(Tensor());
  const c10::ScalarType type = input.scalar_type();
  if (!same_types(input, {&weight, &bias, &grad}) || mean.scalar_type() != moments_type(type))
    return call_fallback<at::_ops::native_layer_norm_backward>(grad, input, shape, mean, rstd, given, shift, wanted);
  const c10::DeviceIndex device = common_device("aten::native_layer_norm_backward", {&grad, &input, &mean, &weight});
  const Tensor from = contiguous(input), scale = contiguous(weight), gradient = contiguous(grad),
               means = contiguous(mean), deviations = contiguous(rstd);
  kernels::LayerNormArguments arguments = sizes_of(input, shape);
  arguments.input = from.const_data_ptr(), arguments.weight = data_of(scale);
  arguments.grad = gradient.const_data_ptr();
  arguments.mean = means.mutable_data_ptr(), arguments.rstd = deviations.mutable_data_ptr();
  Tensor grad_input, grad_weight, grad_bias;
  if (wanted[0]) {
    grad_input = empty(input.sizes(), {}, type, device);
    arguments.output = grad_input.mutable_data_ptr();
    launch_rows(device, layer_norm_kernel("layer_norm_backward", type, true), arguments.rows, arguments);
  }
  if (wanted[1] && weight.defined()) grad_weight = empty(shape, {}, type, device);
  if (wanted[2] && bias.defined()) grad_bias = empty(shape, {}, type, device);
  arguments.grad_weight = const_cast<void *>(data_of(grad_weight));
  arguments.grad_bias = const_cast<void *>(data_of(grad_bias));
  if (arguments.grad_weight || arguments.grad_bias)
    launch_elements(device, layer_norm_kernel("layer_norm_columns", type, false), arguments.size, arguments);
  return {std::move(grad_input), std::move(grad_weight), std::move(grad_bias)};
}

} // namespace

void register_normalization(torch::Library &aten) {
  using namespace at;
  aten.impl("_softmax.out", &softmax<_ops::_softmax_out, meta::structured__softmax, "false">);
  aten.impl("_log_softmax.out", &softmax<_ops::_log_softmax_out, meta::structured__log_softmax, "true">);
  aten.impl("_softmax_backward_data.out",
            &softmax_backward<_ops::_softmax_backward_data_out, meta::structured__softmax_backward_data, "false">);
  aten.impl(
      "_log_softmax_backward_data.out",
      &softmax_backward<_ops::_log_softmax_backward_data_out, meta::structured__log_softmax_backward_data, "true">);
  aten.impl("native_layer_norm", &layer_norm);
  aten.impl("native_layer_norm_backward", &layer_norm_backward);
}

} // namespace tb::ops::jit
