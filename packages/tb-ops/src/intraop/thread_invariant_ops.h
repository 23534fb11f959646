// Operators whose CPU kernel gives bit-identical results on any number of threads: each element of a result is computed by
// one thread, in an order that does not depend on how many there are. Their kernels get several threads although they are
// short, since no result changes. An integration test checks every name with the dtypes that its list names.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

namespace tb::ops {

enum class ThreadInvariance : uint8_t {
  never,
  with_avx512,  // as `float32`, but without AVX-512 oneDNN cuts the work among threads in other ways
  many_results, // float32 and integers, if the result has more than one element or is one integer: one floating-point
                // number is a sum over threads
  float32,      // and integers. With other dtypes, vectors and what remains beside them are computed in different ways.
  any_dtype,
};

inline constexpr std::string_view thread_invariant_with_avx512[] = {
    "aten::convolution",
    "aten::lstm",
    "aten::lstm_backward",
};

inline constexpr std::string_view thread_invariant_many_results[] = {
    "aten::argmax",       "aten::argmin", "aten::linalg_vector_norm", "aten::mean.dim",
    "aten::prod.dim_int", "aten::std",    "aten::sum.dim_IntList",    "aten::var",
};

inline constexpr std::string_view thread_invariant_float32[] = {
    "aten::_adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool2d_backward",
    "aten::_log_softmax",
    "aten::_log_softmax_backward_data",
    "aten::_logcumsumexp",
    "aten::acos",
    "aten::acosh",
    "aten::addcdiv",
    "aten::addcdiv_",
    "aten::addcmul",
    "aten::addcmul_",
    "aten::arange",
    "aten::asin",
    "aten::asinh",
    "aten::atan",
    "aten::avg_pool2d",
    "aten::avg_pool2d_backward",
    "aten::copysign.Tensor",
    "aten::cos",
    "aten::digamma",
    "aten::embedding_dense_backward",
    "aten::erf",
    "aten::erfc",
    "aten::erfinv",
    "aten::exp",
    "aten::exp_",
    "aten::expm1",
    "aten::fmod.Tensor",
    "aten::frac",
    "aten::hardsigmoid",
    "aten::hardswish",
    "aten::histc",
    "aten::hypot",
    "aten::im2col",
    "aten::lerp.Scalar",
    "aten::lerp.Tensor",
    "aten::lerp_.Scalar",
    "aten::lgamma",
    "aten::linspace",
    "aten::log",
    "aten::log10",
    "aten::log1p",
    "aten::log2",
    "aten::log_",
    "aten::log_sigmoid_backward",
    "aten::log_sigmoid_forward",
    "aten::max_pool2d_with_indices",
    "aten::max_pool2d_with_indices_backward",
    "aten::mse_loss_backward",
    "aten::native_group_norm",
    "aten::native_layer_norm",
    "aten::reciprocal",
    "aten::reciprocal_",
    "aten::rsqrt",
    "aten::scaled_dot_product_attention",
    "aten::sigmoid_backward",
    "aten::sin",
    "aten::slow_conv_transpose2d",
    "aten::smooth_l1_loss_backward",
    "aten::tan",
    "aten::tanh",
    "aten::tanh_",
    "aten::upsample_bilinear2d",
    "aten::upsample_nearest2d",
    "aten::xlogy.Tensor",
};

inline constexpr std::string_view thread_invariant_any_dtype[] = {
    "aten::abs",
    "aten::add.Tensor",
    "aten::add_.Tensor",
    "aten::all",
    "aten::all.dim",
    "aten::amax",
    "aten::amin",
    "aten::aminmax",
    "aten::any",
    "aten::any.dim",
    "aten::bitwise_and.Tensor",
    "aten::bitwise_not",
    "aten::bitwise_or.Tensor",
    "aten::bitwise_xor.Tensor",
    "aten::cat",
    "aten::ceil",
    "aten::clamp",
    "aten::clamp.Tensor",
    "aten::clamp_",
    "aten::clamp_max",
    "aten::clamp_max_",
    "aten::clamp_min",
    "aten::clamp_min_",
    "aten::copy_",
    "aten::count_nonzero",
    "aten::cummax",
    "aten::cummin",
    "aten::cumprod",
    "aten::cumsum",
    "aten::div.Tensor",
    "aten::div_.Tensor",
    "aten::eq.Scalar",
    "aten::eq.Tensor",
    "aten::eye",
    "aten::fill_",
    "aten::flip",
    "aten::floor",
    "aten::floor_divide",
    "aten::fmax",
    "aten::fmin",
    "aten::gather",
    "aten::ge.Scalar",
    "aten::ge.Tensor",
    "aten::gt.Scalar",
    "aten::gt.Tensor",
    "aten::index.Tensor",
    "aten::index_add",
    "aten::index_copy",
    "aten::index_select",
    "aten::kthvalue",
    "aten::le.Scalar",
    "aten::le.Tensor",
    "aten::leaky_relu",
    "aten::leaky_relu_backward",
    "aten::logical_and",
    "aten::logical_not",
    "aten::logical_or",
    "aten::logical_xor",
    "aten::lt.Scalar",
    "aten::lt.Tensor",
    "aten::masked_fill_",
    "aten::max.dim",
    "aten::maximum",
    "aten::median",
    "aten::min.dim",
    "aten::minimum",
    "aten::mul.Tensor",
    "aten::mul_.Tensor",
    "aten::nan_to_num",
    "aten::ne.Scalar",
    "aten::ne.Tensor",
    "aten::neg",
    "aten::neg_",
    "aten::pixel_shuffle",
    "aten::reflection_pad1d",
    "aten::reflection_pad2d",
    "aten::relu",
    "aten::remainder.Tensor",
    "aten::replication_pad2d",
    "aten::round",
    "aten::scatter.src",
    "aten::scatter.value",
    "aten::sgn",
    "aten::sign",
    "aten::sort.stable",
    "aten::sqrt",
    "aten::sqrt_",
    "aten::sub.Tensor",
    "aten::sub_.Tensor",
    "aten::take",
    "aten::threshold_backward",
    "aten::topk",
    "aten::tril",
    "aten::tril_",
    "aten::triu",
    "aten::triu_",
    "aten::trunc",
    "aten::unfold_backward",
    "aten::where",
    "aten::zero_",
};

constexpr ThreadInvariance thread_invariance(std::string_view operation) {
  const auto lists = [&](const auto &names) {
    return std::find(std::begin(names), std::end(names), operation) != std::end(names);
  };
  if (lists(thread_invariant_any_dtype)) return ThreadInvariance::any_dtype;
  if (lists(thread_invariant_float32)) return ThreadInvariance::float32;
  if (lists(thread_invariant_many_results)) return ThreadInvariance::many_results;
  return lists(thread_invariant_with_avx512) ? ThreadInvariance::with_avx512 : ThreadInvariance::never;
}

// What it is on this processor.
inline ThreadInvariance here(ThreadInvariance invariance) {
  if (invariance != ThreadInvariance::with_avx512) return invariance;
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512f") ? ThreadInvariance::float32 : ThreadInvariance::never;
#else
  return ThreadInvariance::never;
#endif
}

} // namespace tb::ops
