// Batch normalisation and group normalisation, forward and backward.
#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"
#include "tensor/outputs.h"

#include <ATen/ops/_batch_norm_with_update_ops.h>
#include <ATen/ops/native_batch_norm_backward_ops.h>
#include <ATen/ops/native_batch_norm_ops.h>
#include <ATen/ops/native_group_norm_backward_ops.h>
#include <ATen/ops/native_group_norm_ops.h>

namespace tb::ops::jit {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;

// Statistics of 16-bit types are in single precision.
c10::ScalarType statistics_type(const Tensor &input) {
  return input.scalar_type() == c10::kDouble ? c10::kDouble : c10::kFloat;
}

// Returns the type of weight, bias and running statistics: that of the first one, which the others share if the call
// fits.
c10::ScalarType parameter_type(const Tensor &input, std::initializer_list<const Tensor *> vectors) {
  for (const Tensor *vector : vectors)
    if (vector->defined()) return vector->scalar_type();
  return input.scalar_type();
}

bool normable(const Tensor &input, std::initializer_list<const Tensor *> vectors) {
  const c10::ScalarType type = parameter_type(input, vectors);
  for (const Tensor *vector : vectors)
    if (vector->defined() && vector->scalar_type() != type) return false;
  return supported({&input}) && c10::isFloatingType(input.scalar_type()) && input.dim() >= 2 &&
         (type == input.scalar_type() || (type == c10::kFloat && input.element_size() == 2));
}

// Throws if a vector has no element for each channel.
void check_vectors(int64_t channels, const char *name, std::initializer_list<const Tensor *> vectors) {
  for (const Tensor *vector : vectors)
    TORCH_CHECK(!vector->defined() || (vector->dim() == 1 && vector->numel() == channels), name,
                ": expected vectors of ", channels, " elements, one for each channel, but got one of shape ",
                vector->sizes());
}

// Returns the tensor itself if one stride leads through its spatial dimensions, else a contiguous copy.
Tensor spaced(const Tensor &tensor) {
  int64_t expected = -1;
  for (int64_t d = tensor.dim() - 1; d >= 2; d--) {
    if (tensor.size(d) == 1) continue;
    if (expected >= 0 && tensor.stride(d) != expected) return contiguous(tensor);
    expected = tensor.stride(d) * tensor.size(d);
  }
  return tensor;
}

kernels::ChannelRows rows_of(const Tensor &tensor) {
  kernels::ChannelRows rows{const_cast<void *>(tensor.const_data_ptr()), tensor.stride(0), tensor.stride(1), 0};
  for (int64_t d = 2; d < tensor.dim(); d++)
    if (tensor.size(d) > 1) rows.stride = tensor.stride(d); // the last one's
  return rows;
}

// A call, with the tensors that its launches read.
struct ChannelNorm {
  ChannelNorm(const Tensor &input, const Tensor &weight, int64_t group)
      : device(device_number(input)), type(input.scalar_type()), input(spaced(input)), weight(contiguous(weight)) {
    arguments.batch = input.size(0), arguments.channels = input.size(1);
    arguments.space = c10::multiply_integers(input.sizes().slice(2));
    arguments.group = group;
    arguments.input = rows_of(this->input);
    if (weight.defined()) arguments.weight = this->weight.const_data_ptr();
  }

  void take_grad(const Tensor &given) {
    grad = spaced(given);
    arguments.grad = rows_of(grad);
  }
  void take_moments(const Tensor &given_mean, const Tensor &given_rstd) {
    mean = contiguous(given_mean), rstd = contiguous(given_rstd);
    arguments.mean = const_cast<void *>(mean.const_data_ptr()),
    arguments.rstd = const_cast<void *>(rstd.const_data_ptr());
  }

  int64_t regions(bool grouped) const {
    return grouped ? arguments.batch * (arguments.channels / arguments.group) : arguments.channels;
  }
  Kernel kernel(const char *name, bool synchronizing) const {
    const bool wide = parameters != type;
    return {"channel_norm.cuh", std::string(name) + "<" + type_name(type) + (wide ? ", true>" : ", false>"),
            "ChannelNormArguments", 256, synchronizing};
  }
  void launch_elements(const char *name, const Tensor &output) {
    arguments.output = rows_of(output);
    jit::launch_elements(device, kernel(name, false), output.numel(), arguments);
  }
  void launch_regions(const char *name, bool grouped) const {
    jit::launch_rows(device, kernel(name, true), regions(grouped), arguments);
  }

  // Returns the sums of the gradients, and of their products with the normalised input.
  std::pair<Tensor, Tensor> sums(bool by_group) {
    const c10::ScalarType summed = type == c10::kDouble ? c10::kDouble : c10::kFloat;
    Tensor sum = empty({regions(by_group)}, {}, summed, device), product = empty_like_contiguous(sum);
    arguments.sums = sum.mutable_data_ptr(), arguments.products = product.mutable_data_ptr();
    arguments.by_group = by_group;
    launch_regions("channel_norm_sums", by_group);
    return {std::move(sum), std::move(product)};
  }

  c10::DeviceIndex device;
  c10::ScalarType type, parameters = type;
  Tensor input, weight, grad, mean, rstd;
  kernels::ChannelNormArguments arguments{};
};

// ---- batch normalisation ------------------------------------------------------------------------------------------

ThreeTensors batch_norm(const Tensor &input, const OptionalTensor &weight_given, const OptionalTensor &bias_given,
                        const OptionalTensor &mean_given, const OptionalTensor &variance_given, bool training,
                        double momentum, double epsilon) {
  const Tensor &weight = value_or_undefined(weight_given), bias = contiguous(value_or_undefined(bias_given));
  const Tensor &running_mean = value_or_undefined(mean_given), &running_variance = value_or_undefined(variance_given);
  const auto writable = [](const Tensor &tensor) { return !tensor.defined() || tensor.is_contiguous(); };
  if (!normable(input, {&weight, &bias, &running_mean, &running_variance}) || !writable(running_mean) ||
      !writable(running_variance))
    return call_fallback<at::_ops::native_batch_norm>(input, weight_given, bias_given, mean_given, variance_given,
                                                      training, momentum, epsilon);
  TORCH_CHECK(training || (running_mean.defined() && running_variance.defined()),
              "running_mean and running_var must be defined in evaluation mode");
  common_device("aten::native_batch_norm", {&input, &weight, &bias, &running_mean, &running_variance});
  check_vectors(input.size(1), "native_batch_norm", {&weight, &bias, &running_mean, &running_variance});
  ChannelNorm norm(input, weight, 0);
  norm.parameters = parameter_type(input, {&weight, &bias, &running_mean, &running_variance});
  if (bias.defined()) norm.arguments.bias = bias.const_data_ptr();
  if (running_mean.defined()) norm.arguments.running_mean = running_mean.mutable_data_ptr();
  if (running_variance.defined()) norm.arguments.running_variance = running_variance.mutable_data_ptr();
  norm.arguments.epsilon = epsilon, norm.arguments.momentum = momentum, norm.arguments.from_running = !training;
  const c10::DimVector statistics{training ? input.size(1) : 0};
  Tensor mean = empty(statistics, {}, statistics_type(input), norm.device), rstd = empty_like_contiguous(mean);
  Tensor out = empty_formatted(input, input.sizes(), input.scalar_type(), input.suggest_memory_format());
  if (input.numel() > 0) {
    norm.take_moments(mean, rstd);
    if (training) norm.launch_regions("channel_moments", false);
    norm.launch_elements("channel_norm", out);
  }
  return {std::move(out), std::move(mean), std::move(rstd)};
}

ThreeTensors batch_norm_legit(const Tensor &input, const OptionalTensor &weight, const OptionalTensor &bias,
                              Tensor &running_mean, Tensor &running_variance, bool training, double momentum,
                              double epsilon) {
  return batch_norm(input, weight, bias, running_mean, running_variance, training, momentum, epsilon);
}

ThreeTensors batch_norm_without_running(const Tensor &input, const OptionalTensor &weight, const OptionalTensor &bias,
                                        bool training, double momentum, double epsilon) {
  return batch_norm(input, weight, bias, std::nullopt, std::nullopt, training, momentum, epsilon);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_with_update(const Tensor &input, const OptionalTensor &weight,
                                                                  const OptionalTensor &bias, Tensor &running_mean,
                                                                  Tensor &running_variance, double momentum,
                                                                  double epsilon) {
  auto [out, mean, rstd] = batch_norm(input, weight, bias, running_mean, running_variance, true, momentum, epsilon);
  return {std::move(out), std::move(mean), std::move(rstd), empty({0}, {}, c10::kByte, device_number(input))};
}

ThreeTensors native_batch_norm_backward(const Tensor &grad, const Tensor &input, const OptionalTensor &weight_given,
                                        const OptionalTensor &mean_given, const OptionalTensor &variance_given,
                                        const OptionalTensor &save_mean, const OptionalTensor &save_rstd, bool training,
                                        double epsilon, std::array<bool, 3> mask) {
  const Tensor &weight = value_or_undefined(weight_given);
  const Tensor running_mean = contiguous(value_or_undefined(mean_given)),
               running_variance = contiguous(value_or_undefined(variance_given));
  const Tensor &mean = value_or_undefined(save_mean), &rstd = value_or_undefined(save_rstd);
  const auto saved = [&](const Tensor &tensor) {
    return tensor.defined() && tensor.scalar_type() == statistics_type(input) && tensor.numel() == input.size(1);
  };
  const bool ready = training ? saved(mean) && saved(rstd) : running_mean.defined() && running_variance.defined();
  if (!normable(input, {&weight, &running_mean, &running_variance}) || grad.scalar_type() != input.scalar_type() ||
      !ready)
    return call_fallback<at::_ops::native_batch_norm_backward>(grad, input, weight_given, mean_given, variance_given,
                                                               save_mean, save_rstd, training, epsilon, mask);
  common_device("aten::native_batch_norm_backward",
                {&grad, &input, &weight, &running_mean, &running_variance, &mean, &rstd});
  check_vectors(input.size(1), "native_batch_norm_backward", {&weight, &running_mean, &running_variance});
  ChannelNorm norm(input, weight, 0);
  norm.parameters = parameter_type(input, {&weight, &running_mean, &running_variance});
  norm.take_grad(grad);
  if (training) norm.take_moments(mean, rstd);
  if (running_mean.defined()) norm.arguments.running_mean = const_cast<void *>(running_mean.const_data_ptr());
  if (running_variance.defined())
    norm.arguments.running_variance = const_cast<void *>(running_variance.const_data_ptr());
  norm.arguments.epsilon = epsilon, norm.arguments.from_running = !training;
  Tensor grad_input, sum, product;
  if (training || mask[1] || mask[2]) std::tie(sum, product) = norm.sums(false);
  if (mask[0]) {
    if (!training) norm.arguments.sums = norm.arguments.products = nullptr;
    grad_input = empty_formatted(input, input.sizes(), input.scalar_type(), input.suggest_memory_format());
    norm.launch_elements("channel_norm_backward", grad_input);
  }
  return {std::move(grad_input), mask[1] ? product.to(norm.parameters) : Tensor(),
          mask[2] ? sum.to(norm.parameters) : Tensor()};
}

ThreeTensors batch_norm_backward(const Tensor &grad, const Tensor &input, const Tensor &weight,
                                 const OptionalTensor &running_mean, const OptionalTensor &running_variance,
                                 const OptionalTensor &save_mean, const OptionalTensor &save_rstd, bool update,
                                 double epsilon, std::array<bool, 3> mask, const Tensor &) {
  return native_batch_norm_backward(grad, input, weight, running_mean, running_variance, save_mean, save_rstd, update,
                                    epsilon, mask);
}

// ---- group normalisation ------------------------------------------------------------------------------------------

bool divisible(const Tensor &input, int64_t batch, int64_t channels, int64_t space, int64_t groups) {
  return input.dim() >= 2 && input.size(0) == batch && input.size(1) == channels &&
         input.numel() == batch * channels * space && groups > 0 && channels % groups == 0;
}

ThreeTensors group_norm(const Tensor &input, const OptionalTensor &weight_given, const OptionalTensor &bias_given,
                        int64_t batch, int64_t channels, int64_t space, int64_t groups, double epsilon) {
  const Tensor &weight = value_or_undefined(weight_given), bias = contiguous(value_or_undefined(bias_given));
  if (!normable(input, {&weight, &bias}) || !divisible(input, batch, channels, space, groups) ||
      !input.is_contiguous(input.suggest_memory_format())) // which PyTorch refuses
    return call_fallback<at::_ops::native_group_norm>(input, weight_given, bias_given, batch, channels, space, groups,
                                                      epsilon);
  common_device("aten::native_group_norm", {&input, &weight, &bias});
  check_vectors(channels, "native_group_norm", {&weight, &bias});
  ChannelNorm norm(input, weight, channels / groups);
  norm.parameters = parameter_type(input, {&weight, &bias});
  if (bias.defined()) norm.arguments.bias = bias.const_data_ptr();
  norm.arguments.epsilon = epsilon;
  Tensor mean = empty({batch, groups}, {}, statistics_type(input), norm.device), rstd = empty_like_contiguous(mean);
  Tensor out = empty_formatted(input, input.sizes(), input.scalar_type(), input.suggest_memory_format());
  norm.take_moments(mean, rstd);
  norm.launch_regions("channel_moments", true);
  norm.launch_elements("channel_norm", out);
  return {std::move(out), mean.to(norm.parameters), rstd.to(norm.parameters)}; // as on the CPU and on CUDA
}

ThreeTensors group_norm_backward(const Tensor &grad, const Tensor &input, const Tensor &mean, const Tensor &rstd,
                                 const OptionalTensor &weight_given, int64_t batch, int64_t channels, int64_t space,
                                 int64_t groups, std::array<bool, 3> mask) {
  const Tensor &weight = value_or_undefined(weight_given);
  if (!normable(input, {&weight}) || !divisible(input, batch, channels, space, groups) ||
      grad.scalar_type() != input.scalar_type() || !c10::isFloatingType(mean.scalar_type()) ||
      !c10::isFloatingType(rstd.scalar_type()))
    return call_fallback<at::_ops::native_group_norm_backward>(grad, input, mean, rstd, weight_given, batch, channels,
                                                               space, groups, mask);
  common_device("aten::native_group_norm_backward", {&grad, &input, &mean, &rstd, &weight});
  check_vectors(channels, "native_group_norm_backward", {&weight});
  ChannelNorm norm(input, weight, channels / groups);
  norm.parameters = parameter_type(input, {&weight});
  norm.take_grad(grad);
  norm.take_moments(mean.to(statistics_type(input)), rstd.to(statistics_type(input)));
  Tensor grad_input, sum, product;
  if (mask[0]) {
    const auto sums = norm.sums(true);
    grad_input = empty_formatted(input, input.sizes(), input.scalar_type(), input.suggest_memory_format());
    norm.launch_elements("channel_norm_backward", grad_input);
  }
  if (mask[1] || mask[2]) std::tie(sum, product) = norm.sums(false);
  return {std::move(grad_input), mask[1] ? product.to(norm.parameters) : Tensor(),
          mask[2] ? sum.to(norm.parameters) : Tensor()};
}

} // namespace

void register_channel_norm(torch::Library &aten) {
  aten.impl("native_batch_norm", &batch_norm);
  aten.impl("_native_batch_norm_legit", &batch_norm_legit);
  aten.impl("_native_batch_norm_legit.no_stats", &batch_norm_without_running);
  aten.impl("_batch_norm_with_update", &batch_norm_with_update);
  aten.impl("native_batch_norm_backward", &native_batch_norm_backward);
  aten.impl("batch_norm_backward", &batch_norm_backward);
  aten.impl("native_group_norm", &group_norm);
  aten.impl("native_group_norm_backward", &group_norm_backward);
}

} // namespace tb::ops::jit
