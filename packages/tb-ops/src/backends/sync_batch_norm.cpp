// Composes the statistics of a shard of the batch, those of all shards together, the normalization by them, and the
// gradients.
//
// Channels are dimension 1. Statistics are vectors with an element for each channel, of float for 16-bit inputs;
// `invstd` is the reciprocal of the standard deviation.
#include "backends/sync_batch_norm.h"

#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/full_ops.h>
#include <ATen/ops/native_batch_norm_backward_ops.h>
#include <ATen/ops/ones_like_ops.h>
#include <ATen/ops/var_mean_ops.h>

#include "structured/structured.h"
#include "tensor/outputs.h"

namespace tb::ops {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using TwoTensors = std::tuple<Tensor, Tensor>;
using FourTensors = std::tuple<Tensor, Tensor, Tensor, Tensor>;

c10::ScalarType statistics_type(const Tensor &input) {
  return input.scalar_type() == c10::kDouble ? c10::kDouble : c10::kFloat;
}

// Returns a view of the vector that broadcasts with the input.
Tensor by_channel(const Tensor &vector, const Tensor &input) {
  TORCH_CHECK(input.dim() >= 2 && vector.numel() == input.size(1), "SyncBatchNorm got an input of shape ",
              input.sizes(), " and a vector of ", vector.numel(),
              " elements. Give it an input whose dimension 1 has a channel for each of them");
  c10::DimVector sizes(static_cast<size_t>(input.dim()), 1);
  sizes[1] = vector.numel();
  return vector.view(sizes);
}

Tensor multiply_add(const Tensor &sum, const Tensor &left, const Tensor &right) {
  return at::_ops::addcmul::call(sum, left, right, 1);
}

TwoTensors batch_norm_stats(const Tensor &input, double eps) {
  TORCH_CHECK(input.dim() >= 2, "SyncBatchNorm got an input of shape ", input.sizes(),
              ". Its dimension 1 has to be that of the channels");
  c10::DimVector others{0};
  for (int64_t dim = 2; dim < input.dim(); dim++) others.push_back(dim);
  const auto [variance, mean] = at::_ops::var_mean_correction::call(input.to(statistics_type(input)), others, 0, false);
  return {mean, variance.add(eps).rsqrt()};
}

// mean and invstd have a row for each shard, and counts how many elements of a channel it has. The running statistics
// take in the new ones, with the variance of a sample.
TwoTensors gather_with_counts(const Tensor &, const Tensor &mean, const Tensor &invstd,
                              const OptionalTensor &running_mean, const OptionalTensor &running_var, double momentum,
                              double eps, const Tensor &counts) {
  const Tensor count = counts.to(mean.scalar_type()).view({-1, 1}), total = count.sum();
  const Tensor whole = mean.mul(count).sum(0).div(total);
  const Tensor variance = invstd.pow(-2).sub(eps).add(mean.sub(whole).square()).mul(count).sum(0).div(total);
  const auto take_in = [&](const Tensor &running, const Tensor &now) {
    if (running.defined()) running.lerp_(now.to(running.scalar_type()), momentum);
  };
  take_in(value_or_undefined(running_mean), whole);
  take_in(value_or_undefined(running_var), variance.mul(total.div(total.sub(1))));
  return {whole, variance.add(eps).rsqrt()};
}

TwoTensors gather(const Tensor &input, const Tensor &mean, const Tensor &invstd, const OptionalTensor &running_mean,
                  const OptionalTensor &running_var, double momentum, double eps, int64_t count) {
  const Tensor counts = at::_ops::full::call({mean.size(0)}, count, mean.scalar_type(), {}, mean.device(), {});
  return gather_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

// Normalizes with one multiplication and one addition for each element, like BatchNorm on the CPU.
Tensor batch_norm_elemt(const Tensor &input, const OptionalTensor &weight_given, const OptionalTensor &bias_given,
                        const Tensor &mean, const Tensor &invstd, double) {
  const Tensor &weight = value_or_undefined(weight_given), &bias = value_or_undefined(bias_given);
  const Tensor scale = weight.defined() ? invstd.mul(weight) : invstd, centre = mean.mul(scale);
  const Tensor shift = bias.defined() ? bias.sub(centre) : centre.neg();
  return multiply_add(by_channel(shift, input), input, by_channel(scale, input)).to(input.scalar_type());
}

Tensor &batch_norm_elemt_out(const Tensor &input, const OptionalTensor &weight, const OptionalTensor &bias,
                             const Tensor &mean, const Tensor &invstd, double eps, Tensor &out) {
  const Tensor made = batch_norm_elemt(input, weight, bias, mean, invstd, eps);
  resize_output(out, made.sizes(), made.strides(), made.options());
  return out.copy_(made);
}

// Returns the sums of dy and of dy * (input - mean), and the gradients of the shard for weight and bias.
FourTensors backward_reduce(const Tensor &grad, const Tensor &input, const Tensor &mean, const Tensor &invstd,
                            const OptionalTensor &weight_given, bool for_input, bool for_weight, bool for_bias) {
  // BatchNorm gives the sums as the gradients of bias and weight. With ones for invstd, that of weight is not scaled.
  const Tensor ones = at::_ops::ones_like::call(invstd, {}, {}, {}, {}, {});
  const auto [unused, product, sum] =
      at::_ops::native_batch_norm_backward::call(grad, input, {}, {}, {}, mean, ones, true, 0, {false, true, true});
  const Tensor &weight = value_or_undefined(weight_given);
  const c10::ScalarType type = weight.defined() ? weight.scalar_type() : mean.scalar_type();
  return {for_input ? sum : Tensor(), for_input ? product : Tensor(),
          for_weight ? product.mul(invstd).to(type) : Tensor(), for_bias ? sum.to(type, false, true) : Tensor()};
}

// The sums are those of all shards, and counts how many elements of a channel each shard has.
Tensor backward_elemt(const Tensor &grad, const Tensor &input, const Tensor &mean, const Tensor &invstd,
                      const OptionalTensor &weight_given, const Tensor &sum, const Tensor &product,
                      const Tensor &counts) {
  const Tensor total = counts.sum().to(mean.scalar_type()), slope = invstd.square().mul(product).div(total.neg());
  const Tensor &weight = value_or_undefined(weight_given);
  const Tensor scale = weight.defined() ? invstd.mul(weight) : invstd, shift = scale.mul(sum).div(total.neg());
  const Tensor centred = input.sub(by_channel(mean, input));
  return multiply_add(by_channel(shift, input), multiply_add(grad, centred, by_channel(slope, input)),
                      by_channel(scale, input))
      .to(input.scalar_type());
}

} // namespace

void register_sync_batch_norm(torch::Library &aten) {
  aten.impl("batch_norm_stats", &batch_norm_stats);
  aten.impl("batch_norm_gather_stats", &gather);
  aten.impl("batch_norm_gather_stats_with_counts", &gather_with_counts);
  aten.impl("batch_norm_elemt", &batch_norm_elemt);
  aten.impl("batch_norm_elemt.out", &batch_norm_elemt_out);
  aten.impl("batch_norm_backward_reduce", &backward_reduce);
  aten.impl("batch_norm_backward_elemt", &backward_elemt);
}

} // namespace tb::ops
