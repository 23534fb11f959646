// Negative log-likelihood of class indices.
#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"

#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_backward_ops.h>
#include <ATen/ops/nll_loss_forward_meta.h>
#include <ATen/ops/nll_loss_forward_ops.h>

namespace tb::ops::jit {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

bool fits(const Tensor &input, const Tensor &target, const Tensor &weight, const Tensor &output) {
  return supported({&input, &target, &weight, &output}) && c10::isFloatingType(input.scalar_type()) &&
         target.scalar_type() == c10::kLong && target.dim() <= 1 &&
         (!weight.defined() || weight.scalar_type() == input.scalar_type());
}

kernels::LossArguments arguments_of(const Tensor &input, const Tensor &target, const Tensor &weight, int64_t reduction,
                                    int64_t ignored) {
  kernels::LossArguments arguments{};
  arguments.rows = input.dim() == 1 ? 1 : input.size(0);
  arguments.classes = input.size(-1);
  arguments.ignored = ignored;
  arguments.reduction = static_cast<int>(reduction);
  arguments.target = static_cast<const kernels::Long *>(target.const_data_ptr());
  if (weight.defined()) arguments.weight = weight.const_data_ptr();
  return arguments;
}

std::tuple<Tensor &, Tensor &> forward(const Tensor &self, const Tensor &target, const OptionalTensor &given,
                                       int64_t reduction, int64_t ignored, Tensor &out, Tensor &total) {
  const Tensor weight = contiguous(given.value_or(Tensor()));
  if (!fits(self, target, weight, out))
    return call_fallback<at::_ops::nll_loss_forward_output>(self, target, given, reduction, ignored, out, total);
  Out<at::meta::structured_nll_loss_forward, 2> op(out, total);
  op.meta(self, target, meta_argument(given), reduction, ignored);
  const Tensor input = contiguous(self), classes = contiguous(target);
  kernels::LossArguments arguments = arguments_of(input, classes, weight, reduction, ignored);
  arguments.input = input.const_data_ptr();
  const bool each = reduction == at::Reduction::None && self.dim() == 2;
  if (each) total.zero_();
  with_contiguous(out, [&](const Tensor &to) {
    arguments.output = to.mutable_data_ptr(), arguments.total_weight = total.mutable_data_ptr();
    const std::string body = instance(each ? "nll_rows" : "nll_all", input.scalar_type());
    if (each)
      launch_elements(device_number(to), {"loss.cuh", body, "LossArguments"}, arguments.rows, arguments);
    else
      launch_rows(device_number(to), {"loss.cuh", body, "LossArguments", 256, true}, 1, arguments);
  });
  return {out, total};
}

Tensor &backward(const Tensor &grad, const Tensor &self, const Tensor &target, const OptionalTensor &given,
                 int64_t reduction, int64_t ignored, const Tensor &total, Tensor &out) {
  const Tensor weight = contiguous(given.value_or(Tensor()));
  if (!fits(self, target, weight, out))
    return call_fallback<at::_ops::nll_loss_backward_grad_input>(grad, self, target, given, reduction, ignored, total,
                                                                 out);
  Out<at::meta::structured_nll_loss_backward> op(out);
  op.meta(grad, self, target, meta_argument(given), reduction, ignored, total);
  const Tensor gradient = contiguous(grad), classes = contiguous(target);
  kernels::LossArguments arguments = arguments_of(self, classes, weight, reduction, ignored);
  arguments.input = gradient.const_data_ptr(), arguments.grad_stride = gradient.dim() == 0 ? 0 : 1;
  arguments.total_weight = const_cast<void *>(total.const_data_ptr());
  with_contiguous(out, [&](const Tensor &to) {
    Tensor(to).zero_();
    arguments.output = to.mutable_data_ptr();
    launch_elements(device_number(to), {"loss.cuh", instance("nll_backward", self.scalar_type()), "LossArguments"},
                    arguments.rows, arguments);
  });
  return out;
}

} // namespace

void register_losses(torch::Library &aten) {
  aten.impl("nll_loss_forward.output", &forward);
  aten.impl("nll_loss_backward.grad_input", &backward);
}

} // namespace tb::ops::jit
