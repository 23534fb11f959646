// The patterns of operators on lists that apply an elementwise operator to each tensor; tb_ops.codegen emits the
// pattern of each operator. A pattern takes the kernel for one tensor, compute(self, out) or compute(self, other,
// alpha, out), PyTorch's structured kernel by which floating-point lists are fused (foreach_fusion.h) or void, and
// PyTorch's slow paths.
#pragma once
#include <torch/library.h>

#include "backends/host/foreach/foreach.h"

namespace tb::ops::host {

using c10::Scalar;
using ScalarList = c10::ArrayRef<Scalar>;

template <class Kind> void enter_pair(torch::Library &aten, const std::string &operation, const char *overload) {
  aten.impl((operation + overload).c_str(), &Kind::functional);
  aten.impl((operation + "_" + overload).c_str(), &Kind::in_place);
}

template <class Kind> void enter_numbers(torch::Library &aten, const std::string &operation) {
  enter_pair<Kind>(aten, operation, ".Scalar");
  aten.impl((operation + ".ScalarList").c_str(), &Kind::functional_each);
  aten.impl((operation + "_.ScalarList").c_str(), &Kind::in_place_each);
}

// ---- one list ---------------------------------------------------------------------------------------------------

using SlowUnary = Tensors (*)(at::TensorList);
using SlowUnaryInPlace = void (*)(at::TensorList);

// The kernel for one tensor is a member: lists that run whole share one type, which is compiled once, whatever Kernel is.
struct UnaryLists {
  void (*compute)(const at::Tensor &, at::Tensor &);
  const void *kernel_address() const { return reinterpret_cast<const void *>(compute); }
  void operator()(size_t, at::Tensor &out, const at::Tensor &self) { compute(self, out); }
};
template <class KernelType> struct UnaryOperation : UnaryLists {
  using Whole = UnaryLists;
  using Kernel = KernelType;
  static constexpr size_t inputs = 1;
  std::tuple<> extra(size_t) const { return {}; }
  bool same(size_t, size_t) const { return true; }
};

// Lists of integers take the slow path, because some of these operators return floating-point numbers for them.
inline bool fast_list(at::TensorList self) {
  at::native::check_foreach_api_restrictions(self);
  // The types are written out, because with braces alone another overload would take {} for a second, empty list.
  return at::native::can_use_fast_route(c10::ArrayRef<at::TensorList>(self), ScalarList(), true) &&
         !c10::isComplexType(self[0].scalar_type());
}

template <Name name, auto compute, class Kernel, SlowUnary slow_new, SlowUnaryInPlace slow_in_place> struct Unary {
  static Tensors functional(at::TensorList self) {
    return fast_list(self) ? launch_new_lists<name>(UnaryOperation<Kernel>{{compute}}, self) : slow_new(self);
  }
  static void in_place(at::TensorList self) {
    fast_list(self) ? launch_in_place_lists<name>(UnaryOperation<Kernel>{{compute}}, self) : slow_in_place(self);
  }
  static void enter(torch::Library &aten) { enter_pair<Unary>(aten, name.value, ""); }
};

// ---- a list and numbers -----------------------------------------------------------------------------------------

using SlowScalar = Tensors (*)(at::TensorList, const Scalar &);
using SlowScalarInPlace = void (*)(at::TensorList, const Scalar &);
using SlowScalars = Tensors (*)(at::TensorList, ScalarList);
using SlowScalarsInPlace = void (*)(at::TensorList, ScalarList);

// Whether a structured binary kernel takes an alpha after its tensors.
template <class Kernel> inline constexpr bool takes_alpha = false;
template <class Kernel>
  requires requires(Kernel kernel, const at::Tensor &t, const Scalar &alpha) { kernel.meta(t, t, alpha); }
inline constexpr bool takes_alpha<Kernel> = true;
template <class Kernel> auto with_alpha(const Scalar &alpha, auto... before) {
  if constexpr (takes_alpha<Kernel>)
    return std::tuple(before..., alpha);
  else
    return std::tuple(before...);
}

using ComputeBinary = void (*)(const at::Tensor &, const at::Tensor &, const Scalar &, at::Tensor &);

struct NumberLists {
  ComputeBinary compute;
  Numbers numbers;
  const void *kernel_address() const { return reinterpret_cast<const void *>(compute); }
  void operator()(size_t i, at::Tensor &out, const at::Tensor &self) { compute(self, numbers.tensor(i), 1, out); }
};
template <class KernelType> struct NumberOperation : NumberLists {
  using Whole = NumberLists;
  using Kernel = KernelType;
  static constexpr size_t inputs = 1;
  auto extra(size_t i) { return with_alpha<Kernel>(1, numbers.tensor(i)); }
  bool same(size_t i, size_t j) const { return numbers.same(i, j); }
};
// PyTorch's mul_ takes the number as its first operand, and so rounds it to the dtype of 16-bit tensors; mul does not.
struct NumberFirst {
  ComputeBinary compute;
  Numbers numbers;
  const void *kernel_address() const { return reinterpret_cast<const void *>(compute); }
  void operator()(size_t i, at::Tensor &out, const at::Tensor &self) { compute(numbers.tensor(i), self, 1, out); }
};

template <Name name, ComputeBinary compute, bool floating, class Kernel, SlowScalar slow_one,
          SlowScalarInPlace slow_one_in_place, SlowScalars slow_each, SlowScalarsInPlace slow_each_in_place>
struct WithNumbers {
  using Operation = NumberOperation<Kernel>;
  static void launch_in_place(at::TensorList self, Numbers numbers) {
    if constexpr (std::string_view(name.value) == "aten::_foreach_mul")
      if (c10::isReducedFloatingType(self[0].scalar_type()))
        return launch_in_place_lists<name>(NumberFirst{compute, std::move(numbers)}, self);
    launch_in_place_lists<name>(Operation{{compute, std::move(numbers)}}, self);
  }
  static bool fast(at::TensorList self, ScalarList numbers) {
    // PyTorch's iterator chooses the strides of an empty result, so the slow path makes it.
    const auto empty = [](const at::Tensor &tensor) { return tensor.numel() == 0; };
    return at::native::can_use_fast_route({self}, numbers, floating) && !at::native::has_bool_tensor(self) &&
           std::none_of(self.begin(), self.end(), empty);
  }
  static Tensors functional(at::TensorList self, const Scalar &number) {
    at::native::check_foreach_api_restrictions(self);
    return fast(self, number) ? launch_new_lists<name, &empty_iterated>(Operation{{compute, Numbers(number)}}, self)
                              : slow_one(self, number);
  }
  static void in_place(at::TensorList self, const Scalar &number) {
    at::native::check_foreach_api_restrictions(self);
    fast(self, number) ? launch_in_place(self, Numbers(number)) : slow_one_in_place(self, number);
  }
  static Tensors functional_each(at::TensorList self, ScalarList numbers) {
    at::native::check_foreach_api_restrictions(self, numbers);
    return fast(self, numbers) ? launch_new_lists<name, &empty_iterated>(Operation{{compute, Numbers(numbers)}}, self)
                               : slow_each(self, numbers);
  }
  static void in_place_each(at::TensorList self, ScalarList numbers) {
    at::native::check_foreach_api_restrictions(self, numbers);
    fast(self, numbers) ? launch_in_place(self, Numbers(numbers)) : slow_each_in_place(self, numbers);
  }
  static void enter(torch::Library &aten) { enter_numbers<WithNumbers>(aten, name.value); }
};

// ---- two lists --------------------------------------------------------------------------------------------------

struct TwoLists {
  ComputeBinary compute;
  Scalar alpha;
  const void *kernel_address() const { return reinterpret_cast<const void *>(compute); }
  void operator()(size_t, at::Tensor &out, const at::Tensor &self, const at::Tensor &other) {
    compute(self, other, alpha, out);
  }
};
template <class KernelType> struct ListOperation : TwoLists {
  using Whole = TwoLists;
  using Kernel = KernelType;
  static constexpr size_t inputs = 2;
  auto extra(size_t) const { return with_alpha<Kernel>(alpha); }
  bool same(size_t, size_t) const { return true; }
};

inline bool fast_lists(at::TensorList self, at::TensorList other, const Scalar &alpha, bool floating) {
  at::native::check_foreach_api_restrictions(self, other);
  return at::native::can_use_fast_route({self, other}, alpha, floating) && !at::native::has_bool_tensor(self);
}

template <Name name, auto compute, class Kernel, Tensors (*slow_new)(at::TensorList, at::TensorList, const Scalar &),
          void (*slow_in_place)(at::TensorList, at::TensorList, const Scalar &)>
struct ListsAlpha {
  static Tensors functional(at::TensorList self, at::TensorList other, const Scalar &alpha) {
    return fast_lists(self, other, alpha, false)
               ? launch_new_lists<name>(ListOperation<Kernel>{{compute, capture(alpha)}}, self, other)
               : slow_new(self, other, alpha);
  }
  static void in_place(at::TensorList self, at::TensorList other, const Scalar &alpha) {
    fast_lists(self, other, alpha, false)
        ? launch_in_place_lists<name>(ListOperation<Kernel>{{compute, capture(alpha)}}, self, other)
        : slow_in_place(self, other, alpha);
  }
  static void enter(torch::Library &aten) { enter_pair<ListsAlpha>(aten, name.value, ".List"); }
};

template <Name name, auto compute, bool floating, class Kernel, Tensors (*slow_new)(at::TensorList, at::TensorList),
          void (*slow_in_place)(at::TensorList, at::TensorList)>
struct Lists {
  // Complex numbers have no order. The slow paths raise the CPU's error.
  static bool fast(at::TensorList self, at::TensorList other) {
    constexpr bool orders = std::string_view(name.value) == "aten::_foreach_maximum" ||
                            std::string_view(name.value) == "aten::_foreach_minimum";
    return fast_lists(self, other, 1, floating) && !(orders && c10::isComplexType(self[0].scalar_type()));
  }
  static Tensors functional(at::TensorList self, at::TensorList other) {
    return fast(self, other) ? launch_new_lists<name>(ListOperation<Kernel>{{compute, 1}}, self, other)
                             : slow_new(self, other);
  }
  static void in_place(at::TensorList self, at::TensorList other) {
    fast(self, other) ? launch_in_place_lists<name>(ListOperation<Kernel>{{compute, 1}}, self, other)
                      : slow_in_place(self, other);
  }
  static void enter(torch::Library &aten) { enter_pair<Lists>(aten, name.value, ".List"); }
};

// ---- a list and one 0-dimensional tensor ------------------------------------------------------------------------

struct TensorOperation {
  ComputeBinary compute;
  TensorDescriptor other;
  const void *kernel_address() const { return reinterpret_cast<const void *>(compute); }
  void operator()(size_t, at::Tensor &out, const at::Tensor &self) { compute(self, other.as_cpu_tensor(), 1, out); }
};

template <Name name, ComputeBinary compute, class, Tensors (*slow_new)(at::TensorList, const at::Tensor &),
          void (*slow_in_place)(at::TensorList, const at::Tensor &)>
struct WithTensor {
  static bool fast(at::TensorList self, const at::Tensor &other) {
    at::native::check_foreach_api_restrictions(self);
    return other.dim() == 0 && (other.is_cpu() || other.device() == self[0].device()) &&
           at::native::can_use_fast_route({self}) && c10::isFloatingType(self[0].scalar_type()) &&
           !c10::isComplexType(other.scalar_type());
  }
  static Tensors functional(at::TensorList self, const at::Tensor &other) {
    return fast(self, other) ? launch_new_lists<name>(TensorOperation{compute, TensorDescriptor(other)}, self)
                             : slow_new(self, other);
  }
  static void in_place(at::TensorList self, const at::Tensor &other) {
    fast(self, other) ? launch_in_place_lists<name>(TensorOperation{compute, TensorDescriptor(other)}, self)
                      : slow_in_place(self, other);
  }
  static void enter(torch::Library &aten) { enter_pair<WithTensor>(aten, name.value, ".Tensor"); }
};

} // namespace tb::ops::host
