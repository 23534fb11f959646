// Operators that take several calls of the library, lists of tensors, or PyTorch's own composition.
#include "backends/aclnn/operands.h"

#include <ATen/native/DispatchStub.h>
#include <ATen/native/RangeFactories.h>
#include <ATen/ops/_fused_adam_ops.h>
#include <ATen/ops/_fused_adamw_ops.h>
#include <ATen/ops/arange_native.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/isnan_native.h>
#include <ATen/ops/masked_fill_ops.h>
#include <ATen/ops/maximum_ops.h>
#include <ATen/ops/minimum_ops.h>
#include <ATen/ops/mse_loss_backward_native.h>
#include <ATen/ops/native_dropout_backward_native.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/rsub_native.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/where_ops.h>

#include <algorithm>

namespace tb::ops::aclnn {
namespace {

using at::TensorList;
using OptionalTensor = std::optional<Tensor>;

Tensor &cat(const at::ITensorListRef &tensors, int64_t dim, Tensor &out) {
  Out<at::meta::structured_cat> op(out);
  const int64_t along = op.at::meta::structured_cat::meta(tensors, dim).dim;
  std::vector<Tensor> parts;
  bool good = fits({&out});
  for (const Tensor &tensor : tensors) {
    good &= fits({&tensor}) && !tensor.is_cpu();
    if (tensor.numel() > 0) parts.push_back(tensor); // also skips the empty vectors that PyTorch allows
  }
  if (!good) return call_fallback<at::_ops::cat_out>(tensors, dim, out);
  if (out.numel() == 0) return out;
  const c10::ScalarType type = out.scalar_type();
  const c10::DeviceIndex device = device_number(out);
  bool apart = true;
  for (Tensor &part : parts) {
    apart &= !out.is_alias_of(part);
    part = operand(part, type, device);
  }
  const Tensor to = apart ? out : empty(out.sizes(), {}, type, device);
  run("aten::cat.out", function<"Cat">(), device, List{parts}, along, Output{to});
  if (!apart) copy_elements(to, out);
  return out;
}

// The library computes the number of elements from `end`. A floating-point `end` is half a step after the last
// element, so that rounding does not add or drop an element.
void arange(at::TensorIterator &iterator, const c10::Scalar &start, const c10::Scalar &, const c10::Scalar &step) {
  const Tensor &out = iterator.tensor(0);
  const int64_t count = out.numel();
  TORCH_CHECK_NOT_IMPLEMENTED(fits({&out}), "arange of ", out.scalar_type(),
                              " is not offered on the device. Make it on the CPU and move it with .to(device)");
  if (count == 0) return;
  const bool whole = c10::isIntegralType(out.scalar_type(), false);
  const c10::Scalar end = whole ? c10::Scalar(start.toLong() + step.toLong() * count)
                                : c10::Scalar(start.toDouble() + step.toDouble() * (static_cast<double>(count) - 0.5));
  const auto number = [&](const c10::Scalar &given) {
    return whole ? c10::Scalar(given.toLong()) : c10::Scalar(given.toDouble());
  };
  run("aten::arange.start_out", function<"Arange">(), device_number(out), number(start), end, number(step),
      Output{out});
}

Tensor &fill_tensor(Tensor &self, const Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  if (value.device() != self.device()) return at::_ops::fill__Scalar::call(self, value.item());
  if (self.numel() > 0) self.copy_(value.expand(self.sizes()));
  return self;
}

Tensor &masked_fill_tensor(Tensor &self, const Tensor &mask, const Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return at::_ops::masked_fill__Scalar::call(self, mask, value.item()); // waits if the value is on the device
}

Tensor where(const Tensor &condition, const Tensor &self, const Tensor &other) {
  const at::DimVector sizes = broadcast({&condition, &self, &other});
  const c10::DeviceIndex device = device_number(condition.is_cpu() ? self.is_cpu() ? other : self : condition);
  Tensor out = empty(sizes, {}, promoted({&self, &other}), device);
  return at::_ops::where_self_out::call(condition, self, other, out);
}

Tensor &relu_(Tensor &self) { return self.copy_(at::_ops::relu::call(self)); }

Tensor &clamp_tensor(const Tensor &self, const OptionalTensor &low, const OptionalTensor &high, Tensor &out) {
  Out<at::meta::structured_clamp_Tensor> op(out);
  op.meta(self, meta_argument(low), meta_argument(high));
  const Tensor above = low ? at::_ops::maximum::call(self, *low) : self;
  return out.copy_(high ? at::_ops::minimum::call(above, *high) : above);
}

Tensor floor_divide(const Tensor &self, const Tensor &other) {
  return at::_ops::div_Tensor_mode::call(self, other, "floor");
}

// ---- fused optimizers: a call for each parameter ------------------------------------------------------------------

double number(double rate) { return rate; }
double number(const Tensor &rate) { return rate.item<double>(); } // waits if it is on the device

bool uniform(TensorList self, std::initializer_list<TensorList> lists) {
  constexpr Types taken = types({c10::kFloat, c10::kHalf, c10::kBFloat16});
  for (const TensorList &list : lists) {
    if (list.empty()) continue;
    if (list.size() != self.size()) return false;
    for (size_t i = 0; i < self.size(); i++)
      if (list[i].scalar_type() != self[i].scalar_type() || list[i].sizes() != self[i].sizes() ||
          list[i].device() != self[i].device() || !contains(taken, self[i].scalar_type()) || !fits({&list[i]}))
        return false;
  }
  return !self.empty();
}

// Without weight decay Adam and AdamW compute the same, so the library's AdamW serves both.
template <class Op, bool decoupled, class Rate>
void adam(TensorList self, TensorList grads, TensorList averages, TensorList squares, TensorList maxima,
          TensorList steps, Rate rate, double beta1, double beta2, double decay, double epsilon, bool amsgrad,
          bool maximize, const OptionalTensor &grad_scale, const OptionalTensor &found_inf) {
  const TensorList most = amsgrad ? maxima : TensorList();
  if ((!decoupled && decay != 0) || grad_scale || found_inf || !uniform(self, {self, grads, averages, squares, most}) ||
      steps.size() != self.size() || (amsgrad && maxima.empty()))
    return call_fallback<Op>(self, grads, averages, squares, maxima, steps, rate, beta1, beta2, decay, epsilon, amsgrad,
                             maximize, grad_scale, found_inf);
  const auto step_size = static_cast<float>(number(rate));
  const Tensor none;
  for (size_t i = 0; i < self.size(); i++) {
    if (self[i].numel() == 0) continue;
    const Tensor done = at::_ops::sub_Scalar::call(steps[i], 1, 1); // the library counts this step itself
    run(Op::name, function<"ApplyAdamWV2">(), device_number(self[i]), InPlace{self[i]}, InPlace{averages[i]},
        InPlace{squares[i]}, InPlace{amsgrad ? maxima[i] : none}, Input{grads[i]}, Input{done}, step_size,
        static_cast<float>(beta1), static_cast<float>(beta2), static_cast<float>(decay), static_cast<float>(epsilon),
        amsgrad, maximize);
  }
}

void register_adam(Registrar &registrar) {
  using namespace at;
  using Rate = const Tensor &;
  const auto needed = {&function<"ApplyAdamWV2">(), &function<"Subs">()};
  registrar.add("_fused_adam_", needed, &adam<_ops::_fused_adam_, false, double>);
  registrar.add("_fused_adam_.tensor_lr", needed, &adam<_ops::_fused_adam__tensor_lr, false, Rate>);
  registrar.add("_fused_adamw_", needed, &adam<_ops::_fused_adamw_, true, double>);
  registrar.add("_fused_adamw_.tensor_lr", needed, &adam<_ops::_fused_adamw__tensor_lr, true, Rate>);
}

} // namespace

void register_composed(Registrar &registrar) {
  using at::native::arange_stub;
  registrar.add("cat.out", {&function<"Cat">()}, &cat);
  if (function<"Arange">().found()) arange_stub.set_privateuse1_dispatch_ptr(&arange);
  registrar.add("arange.start_out", {&function<"Arange">()},
                static_cast<Tensor &(*)(const c10::Scalar &, const c10::Scalar &, const c10::Scalar &, Tensor &)>(
                    at::native::arange_out));
  registrar.add("fill_.Tensor", {&function<"InplaceFillScalar">()}, &fill_tensor);
  registrar.add("masked_fill_.Tensor", {&function<"InplaceMaskedFillScalar">()}, &masked_fill_tensor);
  registrar.add("where.self", {&function<"SWhere">()}, &where);
  registrar.add("relu_", {&function<"Relu">()}, &relu_);
  registrar.add("clamp.Tensor_out", {&function<"Maximum">(), &function<"Minimum">()}, &clamp_tensor);
  registrar.add("floor_divide", {&function<"DivMod">()}, &floor_divide);
  registrar.add("isnan", {&function<"NeTensor">()}, &at::native::isnan);
  registrar.add("rsub.Tensor", {&function<"Sub">()},
                static_cast<Tensor (*)(const Tensor &, const Tensor &, const c10::Scalar &)>(at::native::rsub));
  registrar.add("mse_loss_backward", {&function<"MseLossBackward">()}, &at::native::mse_loss_backward);
  registrar.add("native_dropout_backward", {&function<"Mul">()}, &at::native::native_dropout_backward);
  register_adam(registrar);
}

} // namespace tb::ops::aclnn
