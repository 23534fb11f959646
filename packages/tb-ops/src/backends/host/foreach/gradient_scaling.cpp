// GradScaler's two operators. All gradients take one launch, and the scale takes one.
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale_native.h>
#include <ATen/ops/_amp_update_scale_native.h>

#include "backends/host/host.h"
#include "launch/launch.h"

namespace tb::ops::host {
namespace {

using at::Tensor, at::TensorList;

void check_one_element(const char *operation, const char *name, const Tensor &tensor, at::ScalarType type,
                       const Tensor &beside) {
  TORCH_CHECK(tensor.numel() == 1 && tensor.scalar_type() == type && tensor.device() == beside.device(), operation,
              ": ", name, " should have one element of type ", type, " on ", beside.device(), ", but has ",
              tensor.numel(), " of type ", tensor.scalar_type(), " on ", tensor.device(),
              ". Call it through torch.amp.GradScaler");
}

void unscale_kernel(TensorList gradients, const Tensor &found_inf, const Tensor &inv_scale) {
  Tensor found = found_inf;
  at::native::_amp_foreach_non_finite_check_and_unscale_cpu_(gradients, found, inv_scale);
}

void unscale(TensorList gradients, Tensor &found_inf, const Tensor &inv_scale) {
  constexpr const char *operation = "aten::_amp_foreach_non_finite_check_and_unscale_";
  if (gradients.empty()) return;
  check_one_element(operation, "found_inf", found_inf, at::kFloat, gradients[0]);
  check_one_element(operation, "inv_scale", inv_scale, at::kFloat, gradients[0]);
  for (const Tensor &gradient : gradients) {
    TORCH_CHECK(gradient.is_floating_point(), operation, ": a gradient has type ", gradient.scalar_type(),
                ". Scale gradients of floating types only");
    TORCH_CHECK(gradient.device() == gradients[0].device(), operation, ": gradients are on ", gradients[0].device(),
                " and ", gradient.device(), ". Call it once for each device");
  }
  launch_kernel<"aten::_amp_foreach_non_finite_check_and_unscale_", unscale_kernel>(device_number(gradients[0]),
                                                                                    gradients, found_inf, inv_scale);
}

void update_kernel(const Tensor &scale, const Tensor &growth_tracker, const Tensor &found_inf, double growth,
                   double backoff, int64_t growth_interval) {
  Tensor current = scale, tracker = growth_tracker;
  at::native::_amp_update_scale_cpu_(current, tracker, found_inf, growth, backoff, growth_interval);
}

Tensor &update_scale(Tensor &scale, Tensor &growth_tracker, const Tensor &found_inf, double growth, double backoff,
                     int64_t growth_interval) {
  constexpr const char *operation = "aten::_amp_update_scale_";
  check_one_element(operation, "scale", scale, at::kFloat, scale);
  check_one_element(operation, "growth_tracker", growth_tracker, at::kInt, scale);
  check_one_element(operation, "found_inf", found_inf, at::kFloat, scale);
  launch_kernel<"aten::_amp_update_scale_", update_kernel>(device_number(scale), scale, growth_tracker, found_inf,
                                                           growth, backoff, growth_interval);
  return scale;
}

} // namespace

void register_gradient_scaling(torch::Library &aten) {
  aten.impl("_amp_foreach_non_finite_check_and_unscale_", &unscale);
  aten.impl("_amp_update_scale_", &update_scale);
}

} // namespace tb::ops::host
