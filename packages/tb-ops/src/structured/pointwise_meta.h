// Pointwise operators on uniform operands. Their meta functions compute a common shape, dtype and strides, which takes
// a sixth of the caller's time. Operands that agree in all of these need no meta function. The CPU kernel on the worker
// checks everything again.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <string_view>
#include <type_traits>

#include "runtime/runtime.h"

namespace at::meta {
struct structured_add_Tensor;
struct structured_addcdiv;
struct structured_addcmul;
struct structured_cat;
struct structured_clamp_min;
struct structured_cos;
struct structured_div_Tensor;
struct structured_exp;
struct structured_gelu;
struct structured_gelu_backward;
struct structured_leaky_relu;
struct structured_leaky_relu_backward;
struct structured_log;
struct structured_maximum;
struct structured_minimum;
struct structured_mul_Tensor;
struct structured_neg;
struct structured_reciprocal;
struct structured_rsqrt;
struct structured_sigmoid;
struct structured_sigmoid_backward;
struct structured_silu;
struct structured_silu_backward;
struct structured_sin;
struct structured_sqrt;
struct structured_sub_Tensor;
struct structured_tanh;
struct structured_tanh_backward;
struct structured_threshold_backward;
} // namespace at::meta

namespace tb::ops {

template <class Meta, class... Metas> inline constexpr bool one_of = (std::is_same_v<Meta, Metas> || ...);

// Whether a meta function computes nothing else. Then the output for floating-point tensors of one shape and dtype has
// this shape and dtype too, whatever the values of the tensors and of real numbers.
template <class Meta> inline constexpr bool elementwise =
    one_of<Meta, at::meta::structured_add_Tensor, at::meta::structured_addcdiv, at::meta::structured_addcmul,
           at::meta::structured_clamp_min, at::meta::structured_cos, at::meta::structured_div_Tensor,
           at::meta::structured_exp, at::meta::structured_gelu, at::meta::structured_gelu_backward,
           at::meta::structured_leaky_relu, at::meta::structured_leaky_relu_backward, at::meta::structured_log,
           at::meta::structured_maximum, at::meta::structured_minimum, at::meta::structured_mul_Tensor,
           at::meta::structured_neg, at::meta::structured_reciprocal, at::meta::structured_rsqrt,
           at::meta::structured_sigmoid, at::meta::structured_sigmoid_backward, at::meta::structured_silu,
           at::meta::structured_silu_backward, at::meta::structured_sin, at::meta::structured_sqrt,
           at::meta::structured_sub_Tensor, at::meta::structured_tanh, at::meta::structured_tanh_backward,
           at::meta::structured_threshold_backward>;

// Whether the tensor is strided, contiguous and neither lazily conjugated nor lazily negated, so that its bytes are its
// elements in order.
inline bool plain(const at::Tensor &tensor) {
  const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  return tensor.defined() && impl->layout() == c10::kStrided && impl->is_contiguous() && !impl->is_conj() &&
         !impl->is_neg() && !impl->_is_zerotensor();
}

inline bool same_type_and_shape(const at::Tensor &one, const at::Tensor &other) {
  return one.dtype() == other.dtype() && one.sizes() == other.sizes();
}

// Whether two plain tensors of one type and shape share some bytes but not all. Kernels refuse to write to such
// tensors.
inline bool partly_overlap(const at::Tensor &one, const at::Tensor &other) {
  const auto from = reinterpret_cast<uintptr_t>(one.const_data_ptr());
  const auto to = reinterpret_cast<uintptr_t>(other.const_data_ptr());
  return from != to && (from < to ? to - from : from - to) < one.nbytes();
}

// The first tensor of a pointwise call, and whether all operands are like it.
class UniformOperands {
public:
  void add(const at::Tensor &tensor) {
    if (!first) {
      first = &tensor;
      good = plain(tensor) && tensor.device().type() == device_type && is_floating(tensor.scalar_type());
    } else { // equal dispatch keys: equal layouts and conjugate and negative bits
      good = good && tensor.key_set() == first->key_set() && tensor.is_contiguous() &&
             tensor.get_device() == first->get_device() && same_type_and_shape(tensor, *first);
    }
  }
  void add(const c10::Scalar &number) { good = good && (number.isFloatingPoint() || number.isIntegral(false)); }
  template <class Value> void add(const Value &) {
    static_assert(std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string_view>);
  }

  const at::Tensor *first = nullptr;
  bool good = true;

private:
  static bool is_floating(c10::ScalarType type) {
    return type == c10::kFloat || type == c10::kBFloat16 || type == c10::kDouble || type == c10::kHalf;
  }
};

} // namespace tb::ops
