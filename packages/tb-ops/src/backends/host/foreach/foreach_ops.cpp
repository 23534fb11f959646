// Operators on lists of tensors (_foreach_*) that fit no pattern; the others are generated (foreach_patterns.h).
#include "backends/host/foreach/foreach_patterns.h"

#include <ATen/ops/_foreach_addcdiv_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_addcmul_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_copy_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_lerp_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_norm_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_zero_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/addcdiv_cpu_dispatch.h>
#include <ATen/ops/addcdiv_native.h>
#include <ATen/ops/addcmul_cpu_dispatch.h>
#include <ATen/ops/addcmul_native.h>
#include <ATen/ops/lerp_cpu_dispatch.h>
#include <ATen/ops/lerp_native.h>
#include <ATen/ops/linalg_vector_norm_cpu_dispatch.h>
#include <ATen/ops/zero_native.h>

#include <bit>

#include "backends/host/host.h"

namespace tb::ops::host {

std::vector<size_t> ListCost::split(int64_t parts) const {
  std::vector<size_t> begins;
  for (int64_t part = 0; part < parts; part++) {
    const double before = total_ * static_cast<double>(part) / static_cast<double>(parts);
    begins.push_back(std::ranges::upper_bound(until_, before) - until_.begin());
  }
  begins.push_back(until_.size());
  return begins;
}

bool Numbers::same(size_t i, size_t j) const {
  const Scalar &a = (*this)[i], &b = (*this)[j];
  if (a.type() != b.type() || a.isComplex()) return false;
  if (a.isFloatingPoint()) return std::bit_cast<uint64_t>(a.toDouble()) == std::bit_cast<uint64_t>(b.toDouble());
  return a.toLong() == b.toLong();
}

bool apart(c10::ArrayRef<at::Tensor *> tensors, size_t every) {
  std::vector<MemoryRange> ranges;
  for (size_t i = 0; i < tensors.size(); i++) {
    const at::Tensor &tensor = *tensors[i];
    if (!tensor.defined() || tensor.numel() == 0) continue;
    int64_t last = 0;
    for (int64_t d = 0; d < tensor.dim(); d++) last += (tensor.size(d) - 1) * tensor.stride(d);
    const auto *begin = static_cast<const char *>(tensor.const_data_ptr());
    ranges.push_back({begin, begin + (last + 1) * tensor.itemsize(), i % every == 0});
  }
  return apart(ranges);
}

void count_modifications(at::TensorList written) {
  if (c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView)) return; // then no operator counts
  for (const at::Tensor &tensor : written) tensor.unsafeGetTensorImpl()->bump_version();
}

namespace {

using at::Tensor, at::TensorList;
namespace slow = at::compositeexplicitautograd;

// ---- interpolation and fused multiply ---------------------------------------------------------------------------

struct LerpOperation {
  using Kernel = at::native::structured_lerp_Scalar;
  static constexpr size_t inputs = 2;
  std::tuple<Scalar> extra(size_t i) const { return {weights[i]}; }
  bool same(size_t i, size_t j) const { return weights.same(i, j); }
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

template <Name name, class KernelType, FusedMultiply compute, bool floating,
          Tensors (*slow_one)(TensorList, TensorList, TensorList, const Scalar &),
          void (*slow_one_in_place)(TensorList, TensorList, TensorList, const Scalar &),
          Tensors (*slow_each)(TensorList, TensorList, TensorList, ScalarList),
          void (*slow_each_in_place)(TensorList, TensorList, TensorList, ScalarList)>
struct ThreeLists {
  struct Operation {
    using Kernel = KernelType;
    static constexpr size_t inputs = 3;
    std::tuple<Scalar> extra(size_t i) const { return {values[i]}; }
    bool same(size_t i, size_t j) const { return values.same(i, j); }
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
  launch<"aten::_foreach_norm">(
      device_number(self[0]),
      ForeachCall<2, decltype(apply)>{capture_list<WrittenDescriptors>(out), {capture_list(self)}, apply});
  return out;
}

void copy_in_place(TensorList self, TensorList src, bool non_blocking) {
  at::native::check_foreach_api_restrictions(self, src);
  bool fast = all_here({self, src});
  for (size_t i = 0; fast && i < self.size(); i++) fast = self[i].sizes() == src[i].sizes();
  if (!fast) return slow::_foreach_copy_(self, src, non_blocking);
  auto apply = [](size_t, Tensor &to, const Tensor &from) { copy_result(to, from); };
  launch<"aten::_foreach_copy_">(
      device_number(self[0]),
      ForeachCall<2, decltype(apply)>{capture_list<WrittenDescriptors>(self), {capture_list(src)}, apply});
  count_modifications(self);
}

void zero_in_place(TensorList self) {
  at::native::check_foreach_api_restrictions(self);
  if (!all_here({self})) return slow::_foreach_zero_(self);
  auto apply = [](size_t, Tensor &tensor) { at::native::zero_(tensor); };
  launch<"aten::_foreach_zero_">(device_number(self[0]),
                                 ForeachCall<1, decltype(apply)>{capture_list<WrittenDescriptors>(self), {}, apply});
  count_modifications(self);
}

} // namespace

void register_foreach(torch::Library &aten) {
  register_foreach_patterns(aten); // generated
  using slow::_foreach_addcdiv, slow::_foreach_addcdiv_, slow::_foreach_addcmul, slow::_foreach_addcmul_;
  aten.impl("_foreach_lerp.Scalar", &lerp_scalar);
  aten.impl("_foreach_lerp_.Scalar", &lerp_scalar_in_place);
  enter_numbers<ThreeLists<"aten::_foreach_addcmul", at::native::structured_addcmul_out, addcmul, false,
                           _foreach_addcmul, _foreach_addcmul_, _foreach_addcmul, _foreach_addcmul_>>(
      aten, "aten::_foreach_addcmul");
  enter_numbers<ThreeLists<"aten::_foreach_addcdiv", at::native::structured_addcdiv_out, addcdiv, true,
                           _foreach_addcdiv, _foreach_addcdiv_, _foreach_addcdiv, _foreach_addcdiv_>>(
      aten, "aten::_foreach_addcdiv");

  aten.impl("_foreach_norm.Scalar", &norm);
  aten.impl("_foreach_copy_", &copy_in_place);
  aten.impl("_foreach_zero_", &zero_in_place);
}

} // namespace tb::ops::host
