// Operators whose CPU kernel gives bit-identical results on any number of threads: each element of a result is computed by
// one thread, in an order that does not depend on how many there are. Their kernels get several threads although they are
// short, since no result changes. An integration test checks every name, for float32; with tensors of another floating dtype
// (rsqrt in bfloat16) a kernel counts as dependent. Without AVX-512 oneDNN cuts convolutions and the GEMMs of LSTM layers
// among threads in other ways, so those operators count only on processors that have it.
#pragma once
#include <algorithm>
#include <string_view>

namespace tb::ops {

enum class ThreadInvariance { never, with_avx512, always };

inline constexpr std::string_view thread_invariant_with_avx512[] = {
    "aten::convolution",
    "aten::lstm",
    "aten::lstm_backward",
};

inline constexpr std::string_view thread_invariant[] = {
    "aten::_adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool2d_backward",
    "aten::_log_softmax",
    "aten::_log_softmax_backward_data",
    "aten::add.Tensor",
    "aten::add_.Tensor",
    "aten::avg_pool2d",
    "aten::avg_pool2d_backward",
    "aten::cat",
    "aten::clamp_min_",
    "aten::copy_",
    "aten::div.Tensor",
    "aten::div_.Tensor",
    "aten::exp",
    "aten::fill_",
    "aten::index_select",
    "aten::masked_fill_",
    "aten::max_pool2d_with_indices",
    "aten::max_pool2d_with_indices_backward",
    "aten::mul.Tensor",
    "aten::mul_.Tensor",
    "aten::native_layer_norm",
    "aten::neg",
    "aten::relu",
    "aten::rsqrt",
    "aten::scaled_dot_product_attention",
    "aten::sigmoid_backward",
    "aten::sqrt",
    "aten::sub.Tensor",
    "aten::sub_.Tensor",
    "aten::tanh",
    "aten::tanh_backward",
    "aten::threshold_backward",
    "aten::upsample_nearest2d",
    "aten::zero_",
};

constexpr ThreadInvariance thread_invariance(std::string_view operation) {
  const auto lists = [&](const auto &names) {
    return std::find(std::begin(names), std::end(names), operation) != std::end(names);
  };
  if (lists(thread_invariant)) return ThreadInvariance::always;
  return lists(thread_invariant_with_avx512) ? ThreadInvariance::with_avx512 : ThreadInvariance::never;
}

inline bool holds_here(ThreadInvariance independence) {
  if (independence != ThreadInvariance::with_avx512) return independence == ThreadInvariance::always;
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

} // namespace tb::ops
