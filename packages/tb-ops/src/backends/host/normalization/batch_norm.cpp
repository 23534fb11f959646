// Batch normalization, forward and backward.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/batch_norm.h>
#include <ATen/ops/native_batch_norm_backward_native.h>
#include <ATen/ops/native_batch_norm_native.h>
#include <ATen/ops/native_batch_norm_ops.h>

#include "backends/host/host.h"
#include "backends/host/normalization/normalization.h"
#include "dispatch/call_checked.h"
#include "intraop/thread_policy.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

bool channels_last(const Tensor &tensor) {
  return tensor.is_contiguous(c10::MemoryFormat::ChannelsLast) ||
         tensor.is_contiguous(c10::MemoryFormat::ChannelsLast3d);
}

bool dense(const Tensor &tensor) { return tensor.is_contiguous() || channels_last(tensor); }

bool contiguous_or_undefined(const Tensor &tensor) { return !tensor.defined() || tensor.is_contiguous(); }

// Runs the kernel on any number of threads if that is bit-identical, as it is if one thread computes the statistics of
// a channel. In channels-last tensors, and in those of a single pixel, all threads add to the statistics of a channel.
template <class Run> void by_channels(const Tensor &input, const Run &run) {
  if (!input.is_contiguous() || channels_last(input) || input.numel() == input.size(0) * input.size(1)) return run();
  constexpr double nanoseconds = 1; // per element
  intraop.run_invariant(nanoseconds * static_cast<double>(input.numel()), run);
}

// A contiguous tensor can be channels-last too (one channel, one pixel); then it counts as contiguous.
c10::MemoryFormat contiguous_format(const Tensor &tensor) {
  return tensor.is_contiguous() ? c10::MemoryFormat::Contiguous : tensor.suggest_memory_format();
}

void batch_norm_kernel(const Tensor &input, const OptionalTensor &weight, const OptionalTensor &bias,
                       const OptionalTensor &running_mean, const OptionalTensor &running_var, bool training,
                       double momentum, double eps, bool direct, Tensor &out, Tensor &save_mean, Tensor &save_invstd) {
  if (direct) {
    by_channels(input, [&] {
      at::native::batch_norm_cpu_out(input, weight, bias, running_mean, running_var, training, momentum, eps, out,
                                     save_mean, save_invstd);
    });
    return;
  }
  // PyTorch's out= kernel is wrong for strided tensors: it normalizes with statistics that it never wrote.
  const auto [y, mean, invstd] =
      at::native::batch_norm_cpu(input, weight, bias, running_mean, running_var, training, momentum, eps);
  copy_result(out, y);
  copy_result(save_mean, mean);
  copy_result(save_invstd, invstd);
}

// Throws if running statistics have the wrong length. The CPU's kernel does not check it, and would read beyond their
// end.
void check_statistics(const Tensor &input, const Tensor &running_mean, const Tensor &running_var) {
  for (const auto &[name, given] : {std::pair("running_mean", &running_mean), std::pair("running_var", &running_var)})
    TORCH_CHECK(!given->defined() || given->numel() == input.size(1), name, " should contain ", input.size(1),
                " elements not ", given->numel());
}

template <Name name> ThreeTensors batch_norm(const Tensor &input, const OptionalTensor &weight_given,
                                             const OptionalTensor &bias_given, const OptionalTensor &mean_given,
                                             const OptionalTensor &var_given, bool training, double momentum,
                                             double eps) {
  const Tensor &weight = value_or_undefined(weight_given), &bias = value_or_undefined(bias_given);
  const Tensor &running_mean = value_or_undefined(mean_given), &running_var = value_or_undefined(var_given);
  TORCH_CHECK(training || (running_mean.defined() && running_var.defined()),
              "running_mean and running_var must be defined in evaluation mode");
  const c10::DeviceIndex device = common_device(name.value, {&input, &weight, &bias, &running_mean, &running_var});
  check_statistics(input, running_mean, running_var);
  const bool mixed = at::native::is_mixed_type(input, weight, bias, running_mean, running_var);
  if (mixed && c10::isFloatingType(input.scalar_type()))
    at::native::check_mixed_data_type(input, weight, bias, running_mean, running_var);
  const std::array vectors = {&weight, &bias, &running_mean, &running_var};
  const auto fits = [type = at::native::param_scalar_type(input, mixed)](const Tensor *vector) {
    return !vector->defined() || vector->scalar_type() == type;
  };
  if (!c10::isFloatingType(input.scalar_type()) || !std::all_of(vectors.begin(), vectors.end(), fits) ||
      !by_channel(input.size(1), {&weight, &bias, &running_mean, &running_var}))
    return call_checked<at::_ops::native_batch_norm>(input, weight_given, bias_given, mean_given, var_given, training,
                                                     momentum, eps);
  const c10::ScalarType statistics = parameter_type(input, weight, bias);
  const bool all_contiguous = dense(input) && contiguous_or_undefined(weight) && contiguous_or_undefined(bias) &&
                              contiguous_or_undefined(running_mean) && contiguous_or_undefined(running_var);
  Tensor out = empty_formatted(input, input.sizes(), input.scalar_type(),
                               all_contiguous ? contiguous_format(input) : input.suggest_memory_format());
  const int64_t channels = training ? input.size(1) : 0;
  Tensor save_mean = empty_on(input, {channels}, statistics), save_invstd = empty_on(input, {channels}, statistics);
  launch_kernel<name, batch_norm_kernel>(device, input, weight_given, bias_given, mean_given, var_given, training,
                                         momentum, eps, all_contiguous, out, save_mean, save_invstd);
  return {std::move(out), std::move(save_mean), std::move(save_invstd)};
}

ThreeTensors native_batch_norm(const Tensor &input, const OptionalTensor &weight, const OptionalTensor &bias,
                               const OptionalTensor &running_mean, const OptionalTensor &running_var, bool training,
                               double momentum, double eps) {
  return batch_norm<"aten::native_batch_norm">(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

ThreeTensors native_batch_norm_legit(const Tensor &input, const OptionalTensor &weight, const OptionalTensor &bias,
                                     Tensor &running_mean, Tensor &running_var, bool training, double momentum,
                                     double eps) {
  return batch_norm<"aten::_native_batch_norm_legit">(input, weight, bias, running_mean, running_var, training,
                                                      momentum, eps);
}

ThreeTensors native_batch_norm_legit_no_stats(const Tensor &input, const OptionalTensor &weight,
                                              const OptionalTensor &bias, bool training, double momentum, double eps) {
  return batch_norm<"aten::_native_batch_norm_legit.no_stats">(input, weight, bias, std::nullopt, std::nullopt,
                                                               training, momentum, eps);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_with_update(const Tensor &input, const OptionalTensor &weight,
                                                                  const OptionalTensor &bias, Tensor &running_mean,
                                                                  Tensor &running_var, double momentum, double eps) {
  auto [out, mean, invstd] =
      batch_norm<"aten::_batch_norm_with_update">(input, weight, bias, running_mean, running_var, true, momentum, eps);
  return {std::move(out), std::move(mean), std::move(invstd),
          empty({0}, {}, c10::ScalarType::Byte, device_number(input))};
}

void batch_norm_backward_kernel(const Tensor &grad, const Tensor &input, const Tensor &weight,
                                const Tensor &running_mean, const Tensor &running_var, const Tensor &save_mean,
                                const Tensor &save_invstd, bool training, double eps, bool direct, Tensor &grad_input,
                                Tensor &grad_weight, Tensor &grad_bias) {
  if (direct) {
    by_channels(input, [&] {
      at::native::batch_norm_cpu_backward_stub(c10::kCPU, grad_input, grad_weight, grad_bias, grad, input, weight,
                                               running_mean, running_var, save_mean, save_invstd, training, eps);
    });
    return;
  }
  const std::array<bool, 3> mask{grad_input.defined(), grad_weight.defined(), grad_bias.defined()};
  const auto [dx, dw, db] = at::native::batch_norm_backward_cpu(grad, input, weight, running_mean, running_var,
                                                                save_mean, save_invstd, training, eps, mask);
  if (mask[0]) copy_result(grad_input, dx);
  if (mask[1]) copy_result(grad_weight, dw);
  if (mask[2]) copy_result(grad_bias, db);
}

ThreeTensors native_batch_norm_backward(const Tensor &grad, const Tensor &input, const OptionalTensor &weight_given,
                                        const OptionalTensor &mean_given, const OptionalTensor &var_given,
                                        const OptionalTensor &save_mean_given, const OptionalTensor &save_invstd_given,
                                        bool training, double eps, std::array<bool, 3> mask) {
  const Tensor &weight = value_or_undefined(weight_given);
  const Tensor &running_mean = value_or_undefined(mean_given), &running_var = value_or_undefined(var_given);
  const Tensor &save_mean = value_or_undefined(save_mean_given), &save_invstd = value_or_undefined(save_invstd_given);
  const bool mixed = at::native::is_mixed_type(input, weight, running_mean, running_var, save_mean, save_invstd);
  if (mixed) at::native::check_mixed_data_type(input, weight, running_mean, running_var, save_mean, save_invstd);
  const c10::ScalarType parameters = at::native::param_scalar_type(input, mixed);
  const c10::DeviceIndex device =
      common_device("aten::native_batch_norm_backward",
                    {&grad, &input, &weight, &running_mean, &running_var, &save_mean, &save_invstd});
  const bool direct = dense(input) && dense(grad) && input.suggest_memory_format() == grad.suggest_memory_format();
  Tensor grad_input, grad_weight, grad_bias;
  if (mask[0])
    grad_input = empty_formatted(input, input.sizes(), input.scalar_type(),
                                 direct ? contiguous_format(input) : input.suggest_memory_format());
  if (mask[1]) grad_weight = empty_on(input, {input.size(1)}, parameters);
  if (mask[2]) grad_bias = empty_on(input, {input.size(1)}, parameters);
  launch_kernel<"aten::native_batch_norm_backward", batch_norm_backward_kernel>(
      device, grad, input, weight, running_mean, running_var, save_mean, save_invstd, training, eps, direct, grad_input,
      grad_weight, grad_bias);
  return {std::move(grad_input), std::move(grad_weight), std::move(grad_bias)};
}

ThreeTensors batch_norm_backward(const Tensor &grad, const Tensor &input, const Tensor &weight,
                                 const OptionalTensor &running_mean, const OptionalTensor &running_var,
                                 const OptionalTensor &save_mean, const OptionalTensor &save_var, bool update,
                                 double eps, std::array<bool, 3> mask, const Tensor &) {
  return native_batch_norm_backward(grad, input, weight, running_mean, running_var, save_mean, save_var, update, eps,
                                    mask);
}

} // namespace

void register_batch_norm(torch::Library &aten) {
  aten.impl("native_batch_norm", &native_batch_norm);
  aten.impl("_native_batch_norm_legit", &native_batch_norm_legit);
  aten.impl("_native_batch_norm_legit.no_stats", &native_batch_norm_legit_no_stats);
  aten.impl("_batch_norm_with_update", &batch_norm_with_update);
  aten.impl("native_batch_norm_backward", &native_batch_norm_backward);
  aten.impl("batch_norm_backward", &batch_norm_backward);
}

} // namespace tb::ops::host
