// Operators of one tensor.
#include "backends/jit/operators/elementwise.h"

#include <ATen/native/Activation.h>
#include <ATen/ops/atan_meta.h>
#include <ATen/ops/atan_ops.h>
#include <ATen/ops/bitwise_not_meta.h>
#include <ATen/ops/bitwise_not_ops.h>
#include <ATen/ops/ceil_meta.h>
#include <ATen/ops/ceil_ops.h>
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_max_ops.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/clamp_min_ops.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/cos_meta.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/erf_meta.h>
#include <ATen/ops/erf_ops.h>
#include <ATen/ops/exp2_meta.h>
#include <ATen/ops/exp2_ops.h>
#include <ATen/ops/exp_meta.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/expm1_meta.h>
#include <ATen/ops/expm1_ops.h>
#include <ATen/ops/floor_meta.h>
#include <ATen/ops/floor_ops.h>
#include <ATen/ops/gelu_meta.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/isneginf_meta.h>
#include <ATen/ops/isneginf_ops.h>
#include <ATen/ops/isposinf_meta.h>
#include <ATen/ops/isposinf_ops.h>
#include <ATen/ops/log10_meta.h>
#include <ATen/ops/log10_ops.h>
#include <ATen/ops/log1p_meta.h>
#include <ATen/ops/log1p_ops.h>
#include <ATen/ops/log2_meta.h>
#include <ATen/ops/log2_ops.h>
#include <ATen/ops/log_meta.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/neg_meta.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/reciprocal_meta.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/round_meta.h>
#include <ATen/ops/round_ops.h>
#include <ATen/ops/rsqrt_meta.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sgn_meta.h>
#include <ATen/ops/sgn_ops.h>
#include <ATen/ops/sigmoid_meta.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/sign_meta.h>
#include <ATen/ops/sign_ops.h>
#include <ATen/ops/silu_meta.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sin_meta.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/sqrt_meta.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/tan_meta.h>
#include <ATen/ops/tan_ops.h>
#include <ATen/ops/tanh_meta.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/threshold_meta.h>
#include <ATen/ops/threshold_ops.h>
#include <ATen/ops/trunc_meta.h>
#include <ATen/ops/trunc_ops.h>

namespace tb::ops::jit {
namespace {

constexpr auto gelu = [](const at::Tensor &, c10::string_view approximate) {
  return Work{at::native::get_gelutype_enum(approximate) == at::native::GeluType::Tanh ? "GeluTanh" : "Gelu", {}};
};

constexpr auto clamp_to_numbers = [](const at::Tensor &, const std::optional<at::Scalar> &low,
                                     const std::optional<at::Scalar> &high) {
  if (low && high) return Work{"Clamp", {*low, *high}};
  return low ? Work{"ClampBelow", {*low}} : Work{"ClampAbove", {*high}};
};

} // namespace

void register_unary(torch::Library &aten) {
  using namespace at;
  add<_ops::neg_out, meta::structured_neg, plain<"Negate">>(aten);
  add<_ops::exp_out, meta::structured_exp, plain<"Exponential">>(aten);
  add<_ops::exp2_out, meta::structured_exp2, plain<"Exponential2">>(aten);
  add<_ops::expm1_out, meta::structured_expm1, plain<"ExponentialLess1">>(aten);
  add<_ops::log_out, meta::structured_log, plain<"Logarithm">>(aten);
  add<_ops::log2_out, meta::structured_log2, plain<"Logarithm2">>(aten);
  add<_ops::log10_out, meta::structured_log10, plain<"Logarithm10">>(aten);
  add<_ops::log1p_out, meta::structured_log1p, plain<"LogarithmOf1Plus">>(aten);
  add<_ops::sin_out, meta::structured_sin, plain<"Sine">>(aten);
  add<_ops::cos_out, meta::structured_cos, plain<"Cosine">>(aten);
  add<_ops::tan_out, meta::structured_tan, plain<"Tangent">>(aten);
  add<_ops::atan_out, meta::structured_atan, plain<"ArcTangent">>(aten);
  add<_ops::tanh_out, meta::structured_tanh, plain<"HyperbolicTangent">>(aten);
  add<_ops::erf_out, meta::structured_erf, plain<"ErrorFunction">>(aten);
  add<_ops::sigmoid_out, meta::structured_sigmoid, plain<"Sigmoid">>(aten);
  add<_ops::sqrt_out, meta::structured_sqrt, plain<"SquareRoot">>(aten);
  add<_ops::rsqrt_out, meta::structured_rsqrt, plain<"InverseSquareRoot">>(aten);
  add<_ops::reciprocal_out, meta::structured_reciprocal, plain<"Reciprocal">>(aten);
  add<_ops::floor_out, meta::structured_floor, plain<"Floor">>(aten);
  add<_ops::ceil_out, meta::structured_ceil, plain<"Ceiling">>(aten);
  add<_ops::trunc_out, meta::structured_trunc, plain<"Truncate">>(aten);
  add<_ops::round_out, meta::structured_round, plain<"Round">>(aten);
  add<_ops::sign_out, meta::structured_sign, plain<"Sign">>(aten);
  add<_ops::sgn_out, meta::structured_sgn, plain<"Sign">>(aten);
  add<_ops::bitwise_not_out, meta::structured_bitwise_not, plain<"BitwiseNot">>(aten);
  add<_ops::silu_out, meta::structured_silu, plain<"Silu">>(aten);
  add<_ops::threshold_out, meta::structured_threshold, plain<"Threshold">>(aten);
  add<_ops::isneginf_out, meta::structured_isneginf, plain<"IsInfinity<false>">>(aten);
  add<_ops::isposinf_out, meta::structured_isposinf, plain<"IsInfinity<true>">>(aten);
  add<_ops::gelu_out, meta::structured_gelu, gelu>(aten);
  add<_ops::clamp_out, meta::structured_clamp, clamp_to_numbers>(aten);
  add<_ops::clamp_min_out, meta::structured_clamp_min, plain<"ClampBelow">>(aten);
  add<_ops::clamp_max_out, meta::structured_clamp_max, plain<"ClampAbove">>(aten);
  add<_ops::pow_Tensor_Scalar_out, meta::structured_pow_Tensor_Scalar, plain<"PowerOfNumber">>(aten);
}

} // namespace tb::ops::jit
