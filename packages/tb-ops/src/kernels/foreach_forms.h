// The forms of operators on lists whose element is an elementwise operator; tb_ops.codegen emits which are of which form.
// Each takes the kernel of one element, compute(self, out) or compute(self, other, alpha, out), and PyTorch's slow ways.
#pragma once
#include <torch/library.h>

#include "kernels/foreach.h"

namespace tb {

using c10::Scalar;
using ScalarList = c10::ArrayRef<Scalar>;

template <class Kind> void enter_pair(torch::Library &aten, const std::string &operation, const char *overload) {
  aten.impl((operation + overload).c_str(), TORCH_FN(Kind::functional));
  aten.impl((operation + "_" + overload).c_str(), TORCH_FN(Kind::in_place));
}

template <class Kind> void enter_numbers(torch::Library &aten, const std::string &operation) {
  enter_pair<Kind>(aten, operation, ".Scalar");
  aten.impl((operation + ".ScalarList").c_str(), TORCH_FN(Kind::functional_each));
  aten.impl((operation + "_.ScalarList").c_str(), TORCH_FN(Kind::in_place_each));
}

// ---- one list ---------------------------------------------------------------------------------------------------

using SlowUnary = Tensors (*)(at::TensorList);
using SlowUnaryInPlace = void (*)(at::TensorList);

// Lists of integers go the slow way: some of these operators make floating numbers of them.
template <Name name, auto compute, SlowUnary slow_new, SlowUnaryInPlace slow_in_place> struct Unary {
  static void apply(size_t, at::Tensor &out, const at::Tensor &self) { compute(self, out); }
  static bool fast(at::TensorList self) {
    at::native::check_foreach_api_restrictions(self);
    // Types spelled out: with braces alone another overload would take {} for a second, empty list.
    return at::native::can_use_fast_route(c10::ArrayRef<at::TensorList>(self), ScalarList(), true) &&
           !c10::isComplexType(self[0].scalar_type());
  }
  static Tensors functional(at::TensorList self) {
    return fast(self) ? launch_new_lists<name>(&apply, self) : slow_new(self);
  }
  static void in_place(at::TensorList self) {
    fast(self) ? launch_in_place_lists<name>(&apply, self) : slow_in_place(self);
  }
  static void enter(torch::Library &aten) { enter_pair<Unary>(aten, name.value, ""); }
};

// ---- a list and numbers -----------------------------------------------------------------------------------------

using SlowScalar = Tensors (*)(at::TensorList, const Scalar &);
using SlowScalarInPlace = void (*)(at::TensorList, const Scalar &);
using SlowScalars = Tensors (*)(at::TensorList, ScalarList);
using SlowScalarsInPlace = void (*)(at::TensorList, ScalarList);

template <Name name, auto compute, bool floating, SlowScalar slow_one, SlowScalarInPlace slow_one_in_place,
          SlowScalars slow_each, SlowScalarsInPlace slow_each_in_place>
struct WithNumbers {
  struct Operation {
    Numbers numbers;
    void operator()(size_t i, at::Tensor &out, const at::Tensor &self) { compute(self, numbers.tensor(i), 1, out); }
  };
  static bool fast(at::TensorList self, ScalarList numbers) {
    // The order of dimensions of an empty tensor is the iterator's own matter.
    const auto empty = [](const at::Tensor &tensor) { return tensor.numel() == 0; };
    return at::native::can_use_fast_route({self}, numbers, floating) && !at::native::has_bool_tensor(self) &&
           std::none_of(self.begin(), self.end(), empty);
  }
  static Tensors functional(at::TensorList self, const Scalar &number) {
    at::native::check_foreach_api_restrictions(self);
    return fast(self, number) ? launch_new_lists<name, &empty_iterated>(Operation{Numbers(number)}, self)
                              : slow_one(self, number);
  }
  static void in_place(at::TensorList self, const Scalar &number) {
    at::native::check_foreach_api_restrictions(self);
    fast(self, number) ? launch_in_place_lists<name>(Operation{Numbers(number)}, self)
                       : slow_one_in_place(self, number);
  }
  static Tensors functional_each(at::TensorList self, ScalarList numbers) {
    at::native::check_foreach_api_restrictions(self, numbers);
    return fast(self, numbers) ? launch_new_lists<name, &empty_iterated>(Operation{Numbers(numbers)}, self)
                               : slow_each(self, numbers);
  }
  static void in_place_each(at::TensorList self, ScalarList numbers) {
    at::native::check_foreach_api_restrictions(self, numbers);
    fast(self, numbers) ? launch_in_place_lists<name>(Operation{Numbers(numbers)}, self)
                        : slow_each_in_place(self, numbers);
  }
  static void enter(torch::Library &aten) { enter_numbers<WithNumbers>(aten, name.value); }
};

// ---- two lists --------------------------------------------------------------------------------------------------

struct ListOperation {
  static constexpr bool in_parts = true;
  void (*compute)(const at::Tensor &, const at::Tensor &, const Scalar &, at::Tensor &);
  Scalar alpha;
  void operator()(size_t, at::Tensor &out, const at::Tensor &self, const at::Tensor &other) {
    compute(self, other, alpha, out);
  }
};

inline bool fast_lists(at::TensorList self, at::TensorList other, const Scalar &alpha, bool floating) {
  at::native::check_foreach_api_restrictions(self, other);
  return at::native::can_use_fast_route({self, other}, alpha, floating) && !at::native::has_bool_tensor(self);
}

template <Name name, auto compute, Tensors (*slow_new)(at::TensorList, at::TensorList, const Scalar &),
          void (*slow_in_place)(at::TensorList, at::TensorList, const Scalar &)>
struct ListsAlpha {
  static Tensors functional(at::TensorList self, at::TensorList other, const Scalar &alpha) {
    return fast_lists(self, other, alpha, false) ? launch_new_lists<name>(ListOperation{compute, alpha}, self, other)
                                                 : slow_new(self, other, alpha);
  }
  static void in_place(at::TensorList self, at::TensorList other, const Scalar &alpha) {
    fast_lists(self, other, alpha, false) ? launch_in_place_lists<name>(ListOperation{compute, alpha}, self, other)
                                          : slow_in_place(self, other, alpha);
  }
  static void enter(torch::Library &aten) { enter_pair<ListsAlpha>(aten, name.value, ".List"); }
};

template <Name name, auto compute, bool floating, Tensors (*slow_new)(at::TensorList, at::TensorList),
          void (*slow_in_place)(at::TensorList, at::TensorList)>
struct Lists {
  static Tensors functional(at::TensorList self, at::TensorList other) {
    return fast_lists(self, other, 1, floating) ? launch_new_lists<name>(ListOperation{compute, 1}, self, other)
                                                : slow_new(self, other);
  }
  static void in_place(at::TensorList self, at::TensorList other) {
    fast_lists(self, other, 1, floating) ? launch_in_place_lists<name>(ListOperation{compute, 1}, self, other)
                                         : slow_in_place(self, other);
  }
  static void enter(torch::Library &aten) { enter_pair<Lists>(aten, name.value, ".List"); }
};

// ---- a list and one 0-dimensional tensor ------------------------------------------------------------------------

template <Name name, auto compute, Tensors (*slow_new)(at::TensorList, const at::Tensor &),
          void (*slow_in_place)(at::TensorList, const at::Tensor &)>
struct WithTensor {
  struct Operation {
    TensorArgument other;
    void operator()(size_t, at::Tensor &out, const at::Tensor &self) { compute(self, other.alias(), 1, out); }
  };
  static bool fast(at::TensorList self, const at::Tensor &other) {
    at::native::check_foreach_api_restrictions(self);
    return other.dim() == 0 && (other.is_cpu() || other.device() == self[0].device()) &&
           at::native::can_use_fast_route({self}) && c10::isFloatingType(self[0].scalar_type()) &&
           !c10::isComplexType(other.scalar_type());
  }
  static Tensors functional(at::TensorList self, const at::Tensor &other) {
    return fast(self, other) ? launch_new_lists<name>(Operation{TensorArgument(other)}, self) : slow_new(self, other);
  }
  static void in_place(at::TensorList self, const at::Tensor &other) {
    fast(self, other) ? launch_in_place_lists<name>(Operation{TensorArgument(other)}, self)
                      : slow_in_place(self, other);
  }
  static void enter(torch::Library &aten) { enter_pair<WithTensor>(aten, name.value, ".Tensor"); }
};

} // namespace tb
