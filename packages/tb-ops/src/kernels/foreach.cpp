// Operators on lists of tensors (_foreach_*), as the optimizers and gradient clipping use them.
#include "kernels/foreach.h"

#include <ATen/ops/_foreach_abs_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_add_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_addcdiv_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_addcmul_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_copy_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_div_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_lerp_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_maximum_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_mul_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_neg_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_norm_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_reciprocal_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_sqrt_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_sub_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_zero_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/abs_native.h>
#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/addcdiv_cpu_dispatch.h>
#include <ATen/ops/addcmul_cpu_dispatch.h>
#include <ATen/ops/div_cpu_dispatch.h>
#include <ATen/ops/lerp_cpu_dispatch.h>
#include <ATen/ops/linalg_vector_norm_cpu_dispatch.h>
#include <ATen/ops/maximum_cpu_dispatch.h>
#include <ATen/ops/mul_cpu_dispatch.h>
#include <ATen/ops/neg_cpu_dispatch.h>
#include <ATen/ops/reciprocal_cpu_dispatch.h>
#include <ATen/ops/sqrt_cpu_dispatch.h>
#include <ATen/ops/sub_cpu_dispatch.h>
#include <ATen/ops/zero_native.h>

#include "kernels/kernels.h"

namespace tb {
namespace {

using at::Tensor, at::TensorList, c10::Scalar;
using ScalarList = c10::ArrayRef<Scalar>;
namespace slow = at::compositeexplicitautograd;

// What one tensor's kernel is: compute(self, other, alpha, out) for all binary operators.
void add(const Tensor &self, const Tensor &other, const Scalar &alpha, Tensor &out) {
  at::cpu::add_outf(self, other, alpha, out);
}
void sub(const Tensor &self, const Tensor &other, const Scalar &alpha, Tensor &out) {
  at::cpu::sub_outf(self, other, alpha, out);
}
void mul(const Tensor &self, const Tensor &other, const Scalar &, Tensor &out) { at::cpu::mul_outf(self, other, out); }
void div(const Tensor &self, const Tensor &other, const Scalar &, Tensor &out) { at::cpu::div_outf(self, other, out); }
void maximum(const Tensor &self, const Tensor &other, const Scalar &, Tensor &out) {
  at::cpu::maximum_outf(self, other, out);
}
void sqrt(const Tensor &self, Tensor &out) { at::cpu::sqrt_outf(self, out); }
void neg(const Tensor &self, Tensor &out) { at::cpu::neg_outf(self, out); }
void reciprocal(const Tensor &self, Tensor &out) { at::cpu::reciprocal_outf(self, out); }
void absolute(const Tensor &self, Tensor &out) { at::native::abs_out(self, out); }

// ---- one list ---------------------------------------------------------------------------------------------------

using SlowUnary = Tensors (*)(TensorList);
using SlowUnaryInPlace = void (*)(TensorList);

template <Name name, auto compute, bool floating, SlowUnary slow_new, SlowUnaryInPlace slow_in_place> struct Unary {
  static void operation(size_t, Tensor &out, const Tensor &self) { compute(self, out); }
  static bool fast(TensorList self) {
    at::native::check_foreach_api_restrictions(self);
    // Types spelled out: with braces alone another overload would take {} for a second, empty list.
    return at::native::can_use_fast_route(c10::ArrayRef<TensorList>(self), ScalarList(), floating) &&
           !at::native::has_bool_tensor(self) && !c10::isComplexType(self[0].scalar_type());
  }
  static Tensors functional(TensorList self) {
    return fast(self) ? launch_new_lists<name>(operation, self) : slow_new(self);
  }
  static void in_place(TensorList self) {
    fast(self) ? launch_in_place_lists<name>(operation, self) : slow_in_place(self);
  }
};

// ---- a list and numbers -----------------------------------------------------------------------------------------

using SlowScalar = Tensors (*)(TensorList, const Scalar &);
using SlowScalarInPlace = void (*)(TensorList, const Scalar &);
using SlowScalars = Tensors (*)(TensorList, ScalarList);
using SlowScalarsInPlace = void (*)(TensorList, ScalarList);

template <Name name, auto compute, bool floating, SlowScalar slow_one, SlowScalarInPlace slow_one_in_place,
          SlowScalars slow_each, SlowScalarsInPlace slow_each_in_place>
struct WithNumbers {
  struct Operation {
    Numbers numbers;
    void operator()(size_t i, Tensor &out, const Tensor &self) { compute(self, numbers.tensor(i), 1, out); }
  };
  static bool fast(TensorList self, ScalarList numbers) {
    return at::native::can_use_fast_route({self}, numbers, floating) && !at::native::has_bool_tensor(self);
  }
  static Tensors functional(TensorList self, const Scalar &number) {
    at::native::check_foreach_api_restrictions(self);
    return fast(self, number) ? launch_new_lists<name, &empty_iterated>(Operation{Numbers(number)}, self)
                              : slow_one(self, number);
  }
  static void in_place(TensorList self, const Scalar &number) {
    at::native::check_foreach_api_restrictions(self);
    fast(self, number) ? launch_in_place_lists<name>(Operation{Numbers(number)}, self)
                       : slow_one_in_place(self, number);
  }
  static Tensors functional_each(TensorList self, ScalarList numbers) {
    at::native::check_foreach_api_restrictions(self, numbers);
    return fast(self, numbers) ? launch_new_lists<name, &empty_iterated>(Operation{Numbers(numbers)}, self)
                               : slow_each(self, numbers);
  }
  static void in_place_each(TensorList self, ScalarList numbers) {
    at::native::check_foreach_api_restrictions(self, numbers);
    fast(self, numbers) ? launch_in_place_lists<name>(Operation{Numbers(numbers)}, self)
                        : slow_each_in_place(self, numbers);
  }
};

// ---- two lists --------------------------------------------------------------------------------------------------

struct ListOperation {
  void (*compute)(const Tensor &, const Tensor &, const Scalar &, Tensor &);
  Scalar alpha;
  void operator()(size_t, Tensor &out, const Tensor &self, const Tensor &other) { compute(self, other, alpha, out); }
};

bool fast_lists(TensorList self, TensorList other, const Scalar &alpha, bool floating) {
  at::native::check_foreach_api_restrictions(self, other);
  return at::native::can_use_fast_route({self, other}, alpha, floating) && !at::native::has_bool_tensor(self);
}

template <Name name, auto compute, Tensors (*slow_new)(TensorList, TensorList, const Scalar &),
          void (*slow_in_place)(TensorList, TensorList, const Scalar &)>
struct ListsAlpha {
  static Tensors functional(TensorList self, TensorList other, const Scalar &alpha) {
    return fast_lists(self, other, alpha, false) ? launch_new_lists<name>(ListOperation{compute, alpha}, self, other)
                                                 : slow_new(self, other, alpha);
  }
  static void in_place(TensorList self, TensorList other, const Scalar &alpha) {
    fast_lists(self, other, alpha, false) ? launch_in_place_lists<name>(ListOperation{compute, alpha}, self, other)
                                          : slow_in_place(self, other, alpha);
  }
};

template <Name name, auto compute, bool floating, Tensors (*slow_new)(TensorList, TensorList),
          void (*slow_in_place)(TensorList, TensorList)>
struct Lists {
  static Tensors functional(TensorList self, TensorList other) {
    return fast_lists(self, other, 1, floating) ? launch_new_lists<name>(ListOperation{compute, 1}, self, other)
                                                : slow_new(self, other);
  }
  static void in_place(TensorList self, TensorList other) {
    fast_lists(self, other, 1, floating) ? launch_in_place_lists<name>(ListOperation{compute, 1}, self, other)
                                         : slow_in_place(self, other);
  }
};

// ---- a list and one 0-dimensional tensor ------------------------------------------------------------------------

template <Name name, auto compute, Tensors (*slow_new)(TensorList, const Tensor &),
          void (*slow_in_place)(TensorList, const Tensor &)>
struct WithTensor {
  struct Operation {
    TensorArgument other;
    void operator()(size_t, Tensor &out, const Tensor &self) { compute(self, other.alias(), 1, out); }
  };
  static bool fast(TensorList self, const Tensor &other) {
    at::native::check_foreach_api_restrictions(self);
    return other.dim() == 0 && (other.is_cpu() || other.device() == self[0].device()) &&
           at::native::can_use_fast_route({self}) && c10::isFloatingType(self[0].scalar_type()) &&
           !c10::isComplexType(other.scalar_type());
  }
  static Tensors functional(TensorList self, const Tensor &other) {
    return fast(self, other) ? launch_new_lists<name>(Operation{TensorArgument(other)}, self) : slow_new(self, other);
  }
  static void in_place(TensorList self, const Tensor &other) {
    fast(self, other) ? launch_in_place_lists<name>(Operation{TensorArgument(other)}, self)
                      : slow_in_place(self, other);
  }
};

// ---- interpolation and fused multiply ---------------------------------------------------------------------------

struct LerpOperation {
  Numbers weights;
  void operator()(size_t i, Tensor &out, const Tensor &self, const Tensor &end) {
    at::cpu::lerp_outf(self, end, weights[i], out);
  }
};

bool fast_lerp(TensorList self, TensorList end, const Scalar &weight) {
  at::native::check_foreach_api_restrictions(self, end);
  return at::native::can_use_fast_route({self, end}, weight, true);
}

Tensors lerp_scalar(TensorList self, TensorList end, const Scalar &weight) {
  return fast_lerp(self, end, weight)
             ? launch_new_lists<"aten::_foreach_lerp">(LerpOperation{Numbers(weight)}, self, end)
             : slow::_foreach_lerp(self, end, weight);
}
void lerp_scalar_in_place(TensorList self, TensorList end, const Scalar &weight) {
  fast_lerp(self, end, weight)
      ? launch_in_place_lists<"aten::_foreach_lerp_">(LerpOperation{Numbers(weight)}, self, end)
      : slow::_foreach_lerp_(self, end, weight);
}

using FusedMultiply = void (*)(const Tensor &, const Tensor &, const Tensor &, const Scalar &, Tensor &);
void addcmul(const Tensor &self, const Tensor &a, const Tensor &b, const Scalar &value, Tensor &out) {
  at::cpu::addcmul_outf(self, a, b, value, out);
}
void addcdiv(const Tensor &self, const Tensor &a, const Tensor &b, const Scalar &value, Tensor &out) {
  at::cpu::addcdiv_outf(self, a, b, value, out);
}

template <Name name, FusedMultiply compute, bool floating,
          Tensors (*slow_one)(TensorList, TensorList, TensorList, const Scalar &),
          void (*slow_one_in_place)(TensorList, TensorList, TensorList, const Scalar &),
          Tensors (*slow_each)(TensorList, TensorList, TensorList, ScalarList),
          void (*slow_each_in_place)(TensorList, TensorList, TensorList, ScalarList)>
struct ThreeLists {
  struct Operation {
    Numbers values;
    void operator()(size_t i, Tensor &out, const Tensor &self, const Tensor &a, const Tensor &b) {
      compute(self, a, b, values[i], out);
    }
  };
  static bool fast(TensorList self, TensorList a, TensorList b, ScalarList values) {
    return at::native::can_use_fast_route({self, a, b}, values, floating) && !at::native::has_bool_tensor(self);
  }
  static Tensors functional(TensorList self, TensorList a, TensorList b, const Scalar &value) {
    at::native::check_foreach_api_restrictions(self, a, b);
    return fast(self, a, b, value) ? launch_new_lists<name>(Operation{Numbers(value)}, self, a, b)
                                   : slow_one(self, a, b, value);
  }
  static void in_place(TensorList self, TensorList a, TensorList b, const Scalar &value) {
    at::native::check_foreach_api_restrictions(self, a, b);
    fast(self, a, b, value) ? launch_in_place_lists<name>(Operation{Numbers(value)}, self, a, b)
                            : slow_one_in_place(self, a, b, value);
  }
  static Tensors functional_each(TensorList self, TensorList a, TensorList b, ScalarList values) {
    at::native::check_foreach_api_restrictions(self, a, b, values);
    return fast(self, a, b, values) ? launch_new_lists<name>(Operation{Numbers(values)}, self, a, b)
                                    : slow_each(self, a, b, values);
  }
  static void in_place_each(TensorList self, TensorList a, TensorList b, ScalarList values) {
    at::native::check_foreach_api_restrictions(self, a, b, values);
    fast(self, a, b, values) ? launch_in_place_lists<name>(Operation{Numbers(values)}, self, a, b)
                             : slow_each_in_place(self, a, b, values);
  }
};

// ---- norms, copies, zeros ---------------------------------------------------------------------------------------

Tensors norm(TensorList self, const Scalar &order, std::optional<c10::ScalarType> dtype) {
  at::native::check_foreach_api_restrictions(self);
  const bool fast = all_here({self}) && std::all_of(self.begin(), self.end(), [&](const Tensor &tensor) {
                      return c10::isFloatingType(tensor.scalar_type()) && tensor.numel() > 0;
                    });
  if (!fast || dtype || order.isComplex()) return slow::_foreach_norm(self, order, dtype);
  Tensors out;
  out.reserve(self.size());
  for (const Tensor &tensor : self) out.push_back(empty_on(tensor, {}, tensor.scalar_type()));
  auto apply = [order](size_t, Tensor &result, const Tensor &tensor) {
    at::cpu::linalg_vector_norm_outf(tensor, order, at::OptionalIntArrayRef(), false, std::nullopt, result);
  };
  launch<"aten::_foreach_norm">(device_number(self[0]),
                                ForeachCall<2, decltype(apply)>{{stored_list(out), stored_list(self)}, apply});
  return out;
}

void copy_in_place(TensorList self, TensorList src, bool non_blocking) {
  at::native::check_foreach_api_restrictions(self, src);
  bool fast = all_here({self, src});
  for (size_t i = 0; fast && i < self.size(); i++) fast = self[i].sizes() == src[i].sizes();
  if (!fast) return slow::_foreach_copy_(self, src, non_blocking);
  auto apply = [](size_t, Tensor &to, const Tensor &from) { copy_result(to, from); };
  launch<"aten::_foreach_copy_">(device_number(self[0]),
                                 ForeachCall<2, decltype(apply)>{{stored_list(self), stored_list(src)}, apply});
}

void zero_in_place(TensorList self) {
  at::native::check_foreach_api_restrictions(self);
  if (!all_here({self})) return slow::_foreach_zero_(self);
  auto apply = [](size_t, Tensor &tensor) { at::native::zero_(tensor); };
  launch<"aten::_foreach_zero_">(device_number(self[0]), ForeachCall<1, decltype(apply)>{{stored_list(self)}, apply});
}

// ---- registration -----------------------------------------------------------------------------------------------

template <class Kind> void register_unary(torch::Library &aten, const std::string &name) {
  aten.impl(name.c_str(), TORCH_FN(Kind::functional));
  aten.impl((name + "_").c_str(), TORCH_FN(Kind::in_place));
}

template <class Kind> void register_numbers(torch::Library &aten, const std::string &name) {
  aten.impl((name + ".Scalar").c_str(), TORCH_FN(Kind::functional));
  aten.impl((name + "_.Scalar").c_str(), TORCH_FN(Kind::in_place));
  aten.impl((name + ".ScalarList").c_str(), TORCH_FN(Kind::functional_each));
  aten.impl((name + "_.ScalarList").c_str(), TORCH_FN(Kind::in_place_each));
}

template <class Kind> void register_lists(torch::Library &aten, const std::string &name, const char *overload) {
  aten.impl((name + overload).c_str(), TORCH_FN(Kind::functional));
  aten.impl((name + "_" + overload).c_str(), TORCH_FN(Kind::in_place));
}

} // namespace

void register_foreach(torch::Library &aten) {
  using slow::_foreach_abs, slow::_foreach_abs_, slow::_foreach_add, slow::_foreach_add_, slow::_foreach_addcdiv,
      slow::_foreach_addcdiv_, slow::_foreach_addcmul, slow::_foreach_addcmul_, slow::_foreach_div, slow::_foreach_div_,
      slow::_foreach_maximum, slow::_foreach_maximum_, slow::_foreach_mul, slow::_foreach_mul_, slow::_foreach_neg,
      slow::_foreach_neg_, slow::_foreach_reciprocal, slow::_foreach_reciprocal_, slow::_foreach_sqrt,
      slow::_foreach_sqrt_, slow::_foreach_sub, slow::_foreach_sub_;
  register_unary<Unary<"aten::_foreach_sqrt", sqrt, true, _foreach_sqrt, _foreach_sqrt_>>(aten, "_foreach_sqrt");
  register_unary<Unary<"aten::_foreach_neg", neg, false, _foreach_neg, _foreach_neg_>>(aten, "_foreach_neg");
  register_unary<Unary<"aten::_foreach_abs", absolute, false, _foreach_abs, _foreach_abs_>>(aten, "_foreach_abs");
  register_unary<Unary<"aten::_foreach_reciprocal", reciprocal, true, _foreach_reciprocal, _foreach_reciprocal_>>(
      aten, "_foreach_reciprocal");

  register_numbers<
      WithNumbers<"aten::_foreach_add", add, false, _foreach_add, _foreach_add_, _foreach_add, _foreach_add_>>(
      aten, "_foreach_add");
  register_numbers<
      WithNumbers<"aten::_foreach_sub", sub, false, _foreach_sub, _foreach_sub_, _foreach_sub, _foreach_sub_>>(
      aten, "_foreach_sub");
  register_numbers<
      WithNumbers<"aten::_foreach_mul", mul, false, _foreach_mul, _foreach_mul_, _foreach_mul, _foreach_mul_>>(
      aten, "_foreach_mul");
  register_numbers<
      WithNumbers<"aten::_foreach_div", div, true, _foreach_div, _foreach_div_, _foreach_div, _foreach_div_>>(
      aten, "_foreach_div");

  register_lists<ListsAlpha<"aten::_foreach_add", add, _foreach_add, _foreach_add_>>(aten, "_foreach_add", ".List");
  register_lists<ListsAlpha<"aten::_foreach_sub", sub, _foreach_sub, _foreach_sub_>>(aten, "_foreach_sub", ".List");
  register_lists<Lists<"aten::_foreach_mul", mul, false, _foreach_mul, _foreach_mul_>>(aten, "_foreach_mul", ".List");
  register_lists<Lists<"aten::_foreach_div", div, true, _foreach_div, _foreach_div_>>(aten, "_foreach_div", ".List");
  register_lists<Lists<"aten::_foreach_maximum", maximum, false, _foreach_maximum, _foreach_maximum_>>(
      aten, "_foreach_maximum", ".List");

  register_lists<WithTensor<"aten::_foreach_mul", mul, _foreach_mul, _foreach_mul_>>(aten, "_foreach_mul", ".Tensor");
  register_lists<WithTensor<"aten::_foreach_div", div, _foreach_div, _foreach_div_>>(aten, "_foreach_div", ".Tensor");

  aten.impl("_foreach_lerp.Scalar", TORCH_FN(lerp_scalar));
  aten.impl("_foreach_lerp_.Scalar", TORCH_FN(lerp_scalar_in_place));
  register_numbers<ThreeLists<"aten::_foreach_addcmul", addcmul, false, _foreach_addcmul, _foreach_addcmul_,
                              _foreach_addcmul, _foreach_addcmul_>>(aten, "_foreach_addcmul");
  register_numbers<ThreeLists<"aten::_foreach_addcdiv", addcdiv, true, _foreach_addcdiv, _foreach_addcdiv_,
                              _foreach_addcdiv, _foreach_addcdiv_>>(aten, "_foreach_addcdiv");

  aten.impl("_foreach_norm.Scalar", TORCH_FN(norm));
  aten.impl("_foreach_copy_", TORCH_FN(copy_in_place));
  aten.impl("_foreach_zero_", TORCH_FN(zero_in_place));
}

} // namespace tb
