// Fused optimizers: one launch for all parameters.
#include <ATen/ops/_fused_adagrad_native.h>
#include <ATen/ops/_fused_adam_native.h>
#include <ATen/ops/_fused_adamw_native.h>
#include <ATen/ops/_fused_sgd_native.h>

#include "backends/host/host.h"
#include "launch/launch.h"

namespace tb::ops::host {
namespace {

using at::Tensor, at::TensorList;
using OptionalTensor = std::optional<Tensor>;

template <class... Lists> c10::DeviceIndex check_lists(const char *operation, TensorList self, Lists... others) {
  TORCH_CHECK(!self.empty(), "Tensor list must have at least one tensor.");
  for (TensorList list : {self, others...}) {
    TORCH_CHECK(list.empty() || list.size() == self.size(), operation, " got lists of different lengths: ", self.size(),
                " and ", list.size());
    for (const Tensor &tensor : list)
      TORCH_CHECK(tensor.device() == self[0].device(), "Expected all tensors to be on the same device, but ", operation,
                  " got tensors on ", self[0].device(), " and ", tensor.device(), ". Move one with .to(device).");
  }
  return device_number(self[0]);
}

// The learning rate is a number or a tensor, on the host or on the device; so are the scaler's two tensors on the
// device.
void check_rate(double) {}
void check_rate(const Tensor &rate) {
  TORCH_CHECK(rate.numel() == 1, "a learning rate needs one element, but got a tensor with ", rate.numel());
}

// `Rate` is a number or a tensor.
template <class Rate> using AdamKernel = void (*)(TensorList, TensorList, TensorList, TensorList, TensorList,
                                                  TensorList, Rate, double, double, double, double, bool, bool,
                                                  const OptionalTensor &, const OptionalTensor &);

template <class Rate, AdamKernel<Rate> kernel>
void adam_kernel(TensorList self, TensorList grads, TensorList averages, TensorList squares, TensorList maxima,
                 TensorList steps, Rate rate, double beta1, double beta2, double decay, double eps, bool amsgrad,
                 bool maximize, const OptionalTensor &grad_scale, const OptionalTensor &found_inf) {
  kernel(self, grads, averages, squares, maxima, steps, rate, beta1, beta2, decay, eps, amsgrad, maximize, grad_scale,
         found_inf);
}

template <Name name, class Rate, AdamKernel<Rate> kernel>
void adam(TensorList self, TensorList grads, TensorList averages, TensorList squares, TensorList maxima,
          TensorList steps, Rate rate, double beta1, double beta2, double decay, double eps, bool amsgrad,
          bool maximize, const OptionalTensor &grad_scale, const OptionalTensor &found_inf) {
  const c10::DeviceIndex device = check_lists(name.value, self, grads, averages, squares, maxima, steps);
  check_rate(rate);
  launch_kernel<name, adam_kernel<Rate, kernel>>(device, self, grads, averages, squares, maxima, steps, rate, beta1,
                                                 beta2, decay, eps, amsgrad, maximize, grad_scale, found_inf);
}

template <class Rate> using SgdKernel = void (*)(TensorList, TensorList, TensorList, double, double, Rate, double, bool,
                                                 bool, bool, const OptionalTensor &, const OptionalTensor &);

template <class Rate, SgdKernel<Rate> kernel>
void sgd_kernel(TensorList self, TensorList grads, TensorList momenta, double decay, double momentum, Rate rate,
                double dampening, bool nesterov, bool maximize, bool first, const OptionalTensor &grad_scale,
                const OptionalTensor &found_inf) {
  kernel(self, grads, momenta, decay, momentum, rate, dampening, nesterov, maximize, first, grad_scale, found_inf);
}

template <Name name, class Rate, SgdKernel<Rate> kernel>
void sgd(TensorList self, TensorList grads, TensorList momenta, double decay, double momentum, Rate rate,
         double dampening, bool nesterov, bool maximize, bool first, const OptionalTensor &grad_scale,
         const OptionalTensor &found_inf) {
  const c10::DeviceIndex device = check_lists(name.value, self, grads, momenta);
  check_rate(rate);
  launch_kernel<name, sgd_kernel<Rate, kernel>>(device, self, grads, momenta, decay, momentum, rate, dampening,
                                                nesterov, maximize, first, grad_scale, found_inf);
}

template <class Rate> using AdagradKernel = void (*)(TensorList, TensorList, TensorList, TensorList, Rate, double,
                                                     double, double, bool, const OptionalTensor &,
                                                     const OptionalTensor &);

template <class Rate, AdagradKernel<Rate> kernel>
void adagrad_kernel(TensorList self, TensorList grads, TensorList sums, TensorList steps, Rate rate, double rate_decay,
                    double decay, double eps, bool maximize, const OptionalTensor &grad_scale,
                    const OptionalTensor &found_inf) {
  kernel(self, grads, sums, steps, rate, rate_decay, decay, eps, maximize, grad_scale, found_inf);
}

template <Name name, class Rate, AdagradKernel<Rate> kernel>
void adagrad(TensorList self, TensorList grads, TensorList sums, TensorList steps, Rate rate, double rate_decay,
             double decay, double eps, bool maximize, const OptionalTensor &grad_scale,
             const OptionalTensor &found_inf) {
  const c10::DeviceIndex device = check_lists(name.value, self, grads, sums, steps);
  check_rate(rate);
  launch_kernel<name, adagrad_kernel<Rate, kernel>>(device, self, grads, sums, steps, rate, rate_decay, decay, eps,
                                                    maximize, grad_scale, found_inf);
}

} // namespace

void register_optimizers(torch::Library &aten) {
  using namespace at::native;
  aten.impl("_fused_adagrad_", &adagrad<"aten::_fused_adagrad_", double, _fused_adagrad_kernel_cpu_>);
  aten.impl("_fused_adagrad_.tensor_lr", &adagrad<"aten::_fused_adagrad_", const Tensor &, _fused_adagrad_kernel_cpu_>);
  aten.impl("_fused_adam_", &adam<"aten::_fused_adam_", double, _fused_adam_kernel_cpu_>);
  aten.impl("_fused_adam_.tensor_lr", &adam<"aten::_fused_adam_", const Tensor &, _fused_adam_kernel_cpu_>);
  aten.impl("_fused_adamw_", &adam<"aten::_fused_adamw_", double, _fused_adamw_kernel_cpu_>);
  aten.impl("_fused_adamw_.tensor_lr", &adam<"aten::_fused_adamw_", const Tensor &, _fused_adamw_kernel_cpu_>);
  aten.impl("_fused_sgd_", &sgd<"aten::_fused_sgd_", double, _fused_sgd_kernel_cpu_>);
  aten.impl("_fused_sgd_.tensor_lr", &sgd<"aten::_fused_sgd_", const Tensor &, _fused_sgd_kernel_cpu_>);
}

} // namespace tb::ops::host
