// Operators of two and three tensors.
#include "backends/jit/operators/elementwise.h"

#include <ATen/native/Activation.h>
#include <ATen/ops/add_meta.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_meta.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_meta.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/atan2_meta.h>
#include <ATen/ops/atan2_ops.h>
#include <ATen/ops/bitwise_and_meta.h>
#include <ATen/ops/bitwise_and_ops.h>
#include <ATen/ops/bitwise_or_meta.h>
#include <ATen/ops/bitwise_or_ops.h>
#include <ATen/ops/bitwise_xor_meta.h>
#include <ATen/ops/bitwise_xor_ops.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/eq_meta.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/fmod_meta.h>
#include <ATen/ops/fmod_ops.h>
#include <ATen/ops/ge_meta.h>
#include <ATen/ops/ge_ops.h>
#include <ATen/ops/gelu_backward_meta.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/gt_meta.h>
#include <ATen/ops/gt_ops.h>
#include <ATen/ops/le_meta.h>
#include <ATen/ops/le_ops.h>
#include <ATen/ops/lerp_meta.h>
#include <ATen/ops/lerp_ops.h>
#include <ATen/ops/lt_meta.h>
#include <ATen/ops/lt_ops.h>
#include <ATen/ops/maximum_meta.h>
#include <ATen/ops/maximum_ops.h>
#include <ATen/ops/minimum_meta.h>
#include <ATen/ops/minimum_ops.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/ne_meta.h>
#include <ATen/ops/ne_ops.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/remainder_meta.h>
#include <ATen/ops/remainder_ops.h>
#include <ATen/ops/sigmoid_backward_meta.h>
#include <ATen/ops/sigmoid_backward_ops.h>
#include <ATen/ops/silu_backward_meta.h>
#include <ATen/ops/silu_backward_ops.h>
#include <ATen/ops/sub_meta.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/tanh_backward_meta.h>
#include <ATen/ops/tanh_backward_ops.h>
#include <ATen/ops/threshold_backward_meta.h>
#include <ATen/ops/threshold_backward_ops.h>

namespace tb::ops::jit {
namespace {

constexpr auto divide = [](const at::Tensor &, const at::Tensor &, std::optional<c10::string_view> rounding) {
  return Work{!rounding ? "Divide" : *rounding == "floor" ? "DivideFloor" : "DivideTruncate", {}};
};

constexpr auto gelu_backward = [](const at::Tensor &, const at::Tensor &, c10::string_view approximate) {
  return Work{at::native::get_gelutype_enum(approximate) == at::native::GeluType::Tanh ? "GeluTanhBackward"
                                                                                       : "GeluBackward",
              {}};
};

constexpr auto clamp = [](const at::Tensor &, const std::optional<at::Tensor> &low,
                          const std::optional<at::Tensor> &high) {
  return Work{low && high ? "ClampTensor" : low ? "Maximum" : "Minimum", {}};
};

// The iterator has the number as an operand.
template <Name functor> inline constexpr auto without_scalars = [](const auto &...) { return Work{functor.value, {}}; };

} // namespace

void register_binary(torch::Library &aten) {
  using namespace at;
  add<_ops::add_out, meta::structured_add_Tensor, plain<"Add">>(aten);
  add<_ops::sub_out, meta::structured_sub_Tensor, plain<"Subtract">>(aten);
  add<_ops::mul_out, meta::structured_mul_Tensor, plain<"Multiply">>(aten);
  add<_ops::div_out, meta::structured_div_Tensor, plain<"Divide">>(aten);
  add<_ops::pow_Tensor_Tensor_out, meta::structured_pow_Tensor_Tensor, plain<"Power">>(aten);
  add<_ops::maximum_out, meta::structured_maximum, plain<"Maximum">>(aten);
  add<_ops::minimum_out, meta::structured_minimum, plain<"Minimum">>(aten);
  add<_ops::remainder_Tensor_out, meta::structured_remainder_Tensor, plain<"Remainder">>(aten);
  add<_ops::fmod_Tensor_out, meta::structured_fmod_Tensor, plain<"Fmod">>(aten);
  add<_ops::atan2_out, meta::structured_atan2, plain<"ArcTangent2">>(aten);
  add<_ops::bitwise_and_Tensor_out, meta::structured_bitwise_and_Tensor, plain<"BitwiseAnd">>(aten);
  add<_ops::bitwise_or_Tensor_out, meta::structured_bitwise_or_Tensor, plain<"BitwiseOr">>(aten);
  add<_ops::bitwise_xor_Tensor_out, meta::structured_bitwise_xor_Tensor, plain<"BitwiseXor">>(aten);
  add<_ops::eq_Tensor_out, meta::structured_eq_Tensor, plain<"Equal">>(aten);
  add<_ops::eq_Scalar_out, meta::structured_eq_Scalar, without_scalars<"Equal">>(aten);
  add<_ops::ne_Tensor_out, meta::structured_ne_Tensor, plain<"NotEqual">>(aten);
  add<_ops::ne_Scalar_out, meta::structured_ne_Scalar, without_scalars<"NotEqual">>(aten);
  add<_ops::lt_Tensor_out, meta::structured_lt_Tensor, plain<"Less">>(aten);
  add<_ops::lt_Scalar_out, meta::structured_lt_Scalar, without_scalars<"Less">>(aten);
  add<_ops::le_Tensor_out, meta::structured_le_Tensor, plain<"LessOrEqual">>(aten);
  add<_ops::le_Scalar_out, meta::structured_le_Scalar, without_scalars<"LessOrEqual">>(aten);
  add<_ops::gt_Tensor_out, meta::structured_gt_Tensor, plain<"Greater">>(aten);
  add<_ops::gt_Scalar_out, meta::structured_gt_Scalar, without_scalars<"Greater">>(aten);
  add<_ops::ge_Tensor_out, meta::structured_ge_Tensor, plain<"GreaterOrEqual">>(aten);
  add<_ops::ge_Scalar_out, meta::structured_ge_Scalar, without_scalars<"GreaterOrEqual">>(aten);
  add<_ops::tanh_backward_grad_input, meta::structured_tanh_backward, plain<"TanhBackward">>(aten);
  add<_ops::sigmoid_backward_grad_input, meta::structured_sigmoid_backward, plain<"SigmoidBackward">>(aten);
  add<_ops::threshold_backward_grad_input, meta::structured_threshold_backward, plain<"ThresholdBackward">>(aten);
  add<_ops::silu_backward_grad_input, meta::structured_silu_backward, plain<"SiluBackward">>(aten);
  add<_ops::addcmul_out, meta::structured_addcmul, plain<"AddProduct">>(aten);
  add<_ops::addcdiv_out, meta::structured_addcdiv, plain<"AddQuotient">>(aten);
  add<_ops::lerp_Scalar_out, meta::structured_lerp_Scalar, plain<"Interpolate">>(aten);
  add<_ops::lerp_Tensor_out, meta::structured_lerp_Tensor, plain<"InterpolateTensor">>(aten);
  add<_ops::div_out_mode, meta::structured_div_Tensor_mode, divide>(aten);
  add<_ops::gelu_backward_grad_input, meta::structured_gelu_backward, gelu_backward>(aten);
  add<_ops::clamp_Tensor_out, meta::structured_clamp_Tensor, clamp>(aten);
}

} // namespace tb::ops::jit
