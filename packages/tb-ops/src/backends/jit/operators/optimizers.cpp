// Fused optimizers. One launch updates many parameters.
#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"

#include <ATen/ops/_fused_adam_ops.h>
#include <ATen/ops/_fused_adamw_ops.h>
#include <ATen/ops/_fused_sgd_ops.h>

#include <algorithm>

namespace tb::ops::jit {
namespace {

using at::Tensor, at::TensorList;
using OptionalTensor = std::optional<Tensor>;

double number(double rate) { return rate; }
double number(const Tensor &rate) { return rate.item<double>(); } // waits if it is on the device

// Whether the elements at equal offsets in memory belong together: the tensors have equal types, sizes, strides and
// devices, and no gaps.
bool uniform(TensorList self, std::initializer_list<TensorList> lists) {
  if (self.empty()) return false;
  for (const TensorList &list : lists) {
    if (list.empty()) continue;
    if (list.size() != self.size()) return false;
    for (size_t i = 0; i < self.size(); i++)
      if (list[i].scalar_type() != self[0].scalar_type() || list[i].sizes() != self[i].sizes() ||
          list[i].strides() != self[i].strides() || list[i].device() != self[0].device())
        return false;
  }
  return std::all_of(self.begin(), self.end(), [&](const Tensor &one) {
    return supported({&one}) && c10::isFloatingType(one.scalar_type()) && one.is_non_overlapping_and_dense() &&
           one.scalar_type() == self[0].scalar_type() && one.device() == self[0].device();
  });
}

bool single(const OptionalTensor &tensor) { return !tensor || tensor->scalar_type() == c10::kFloat; }
const float *pointer(const OptionalTensor &tensor) {
  return tensor && tensor->defined() ? static_cast<const float *>(tensor->const_data_ptr()) : nullptr;
}
void *pointer(TensorList list, size_t i) { return list.empty() ? nullptr : list[i].mutable_data_ptr(); }

void launch_steps(const char *name, kernels::OptimizerArguments arguments, TensorList self, TensorList grads,
                  TensorList first, TensorList second, TensorList maxima, TensorList steps) {
  const c10::DeviceIndex device = device_number(self[0]);
  const Kernel kernel{"optimizers.cuh", instance(name, self[0].scalar_type()), "OptimizerArguments"};
  const Function function = find(device, kernel);
  for (size_t begin = 0; begin < self.size(); begin += kernels::max_tensors) {
    const size_t count = std::min<size_t>(kernels::max_tensors, self.size() - begin);
    int64_t longest = 0;
    for (size_t k = 0; k < count; k++) {
      const size_t i = begin + k;
      arguments.counts[k] = self[i].numel();
      longest = std::max(longest, self[i].numel());
      arguments.parameters[k] = self[i].mutable_data_ptr();
      arguments.gradients[k] = grads[i].mutable_data_ptr();
      arguments.first[k] = pointer(first, i), arguments.second[k] = pointer(second, i);
      arguments.maxima[k] = pointer(maxima, i);
      arguments.steps[k] = static_cast<const float *>(pointer(steps, i));
    }
    if (longest == 0) continue;
    arguments.tensors = static_cast<int>(count);
    constexpr int64_t most = 1 << 10; // blocks for a tensor; the longest tensor decides for all
    const int64_t blocks = std::min<int64_t>(most, (longest + function.threads - 1) / function.threads);
    launch(device, function, static_cast<unsigned>(blocks), static_cast<unsigned>(count), function.threads,
           argument_of(arguments));
  }
}

template <class Op, int flags, class Rate>
void adam(TensorList self, TensorList grads, TensorList averages, TensorList squares, TensorList maxima,
          TensorList steps, Rate rate, double beta1, double beta2, double decay, double epsilon, bool amsgrad,
          bool maximize, const OptionalTensor &grad_scale, const OptionalTensor &found_inf) {
  const bool single_steps = std::all_of(steps.begin(), steps.end(), [&](const Tensor &step) {
    return step.scalar_type() == c10::kFloat && step.device() == self[0].device();
  });
  if (!uniform(self, {grads, averages, squares, maxima}) || steps.size() != self.size() || !single_steps ||
      !single(grad_scale) || !single(found_inf))
    return call_fallback<Op>(self, grads, averages, squares, maxima, steps, rate, beta1, beta2, decay, epsilon, amsgrad,
                             maximize, grad_scale, found_inf);
  kernels::OptimizerArguments arguments{};
  arguments.flags = flags | (maximize ? kernels::maximize : 0);
  arguments.rate = number(rate), arguments.beta1 = beta1, arguments.beta2 = beta2;
  arguments.decay = decay, arguments.epsilon = epsilon;
  arguments.grad_scale = pointer(grad_scale), arguments.found_inf = pointer(found_inf);
  launch_steps("adam", arguments, self, grads, averages, squares, amsgrad ? maxima : TensorList(), steps);
}

template <class Op, class Rate> void sgd(TensorList self, TensorList grads, TensorList momenta, double decay,
                                         double momentum, Rate rate, double dampening, bool nesterov, bool maximize,
                                         bool first, const OptionalTensor &grad_scale,
                                         const OptionalTensor &found_inf) {
  if (!uniform(self, {grads, momenta}) || (momentum != 0 && momenta.empty()) || !single(grad_scale) ||
      !single(found_inf))
    return call_fallback<Op>(self, grads, momenta, decay, momentum, rate, dampening, nesterov, maximize, first,
                             grad_scale, found_inf);
  kernels::OptimizerArguments arguments{};
  arguments.flags =
      (maximize ? kernels::maximize : 0) | (nesterov ? kernels::nesterov : 0) | (first ? kernels::first_step : 0);
  arguments.rate = number(rate), arguments.beta1 = momentum, arguments.beta2 = dampening, arguments.decay = decay;
  arguments.grad_scale = pointer(grad_scale), arguments.found_inf = pointer(found_inf);
  launch_steps("sgd", arguments, self, grads, momenta, {}, {}, {});
}

} // namespace

void register_optimizers(torch::Library &aten) {
  using namespace at;
  using Rate = const Tensor &;
  aten.impl("_fused_adam_", &adam<_ops::_fused_adam_, 0, double>);
  aten.impl("_fused_adam_.tensor_lr", &adam<_ops::_fused_adam__tensor_lr, 0, Rate>);
  aten.impl("_fused_adamw_", &adam<_ops::_fused_adamw_, kernels::decoupled, double>);
  aten.impl("_fused_adamw_.tensor_lr", &adam<_ops::_fused_adamw__tensor_lr, kernels::decoupled, Rate>);
  aten.impl("_fused_sgd_", &sgd<_ops::_fused_sgd_, double>);
  aten.impl("_fused_sgd_.tensor_lr", &sgd<_ops::_fused_sgd__tensor_lr, Rate>);
}

} // namespace tb::ops::jit
