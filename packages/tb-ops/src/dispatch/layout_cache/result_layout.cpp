// Reads the layout of results.
#include "dispatch/layout_cache/result_layout.h"

#include <algorithm>

namespace tb::ops {
namespace {

void add_tensors(const c10::IValue &value, std::vector<at::Tensor> &out) {
  if (value.isTensor()) {
    out.push_back(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue &item : value.toListRef()) {
      if (item.isTensor()) out.push_back(item.toTensor());
      if (item.isNone()) out.emplace_back();
    }
  }
}

bool share_storage(const at::Tensor &one, const at::Tensor &other) {
  return other.defined() && other.has_storage() && one.storage().is_alias_of(other.storage());
}

std::optional<ResultLayout> layout_of(c10::ArrayRef<at::Tensor> arguments, const at::Tensor &result) {
  ResultLayout out;
  if (!result.defined()) return out;
  for (size_t i = 0; i < arguments.size(); i++) {
    if (!arguments[i].is_same(result)) continue;
    out.kind = ResultLayout::Kind::argument;
    out.position = i;
    return out;
  }
  if (result.device().type() != device_type || result.layout() != c10::kStrided || result.storage_offset() != 0 ||
      !result.is_non_overlapping_and_dense())
    return std::nullopt;
  const auto shared = [&](const at::Tensor &argument) { return share_storage(result, argument); };
  if (std::any_of(arguments.begin(), arguments.end(), shared)) return std::nullopt;
  out.kind = ResultLayout::Kind::fresh;
  out.type = result.scalar_type();
  out.sizes = result.sizes();
  out.strides = result.strides();
  out.conjugate = result.is_conj();
  out.negative = result.is_neg();
  return out;
}

} // namespace

at::Tensor ResultLayout::make(c10::DeviceIndex device) const {
  at::Tensor out = empty(sizes, strides, type, device);
  if (conjugate) out._set_conj(true);
  if (negative) out._set_neg(true);
  return out;
}

std::vector<at::Tensor> tensors_of(c10::ArrayRef<c10::IValue> arguments) {
  std::vector<at::Tensor> out;
  for (const c10::IValue &argument : arguments) add_tensors(argument, out);
  return out;
}

std::optional<CallLayout> layout_of(c10::ArrayRef<at::Tensor> arguments, c10::ArrayRef<c10::IValue> results) {
  CallLayout out;
  const auto on = [&](const at::Tensor &tensor) {
    if (!tensor.defined() || tensor.device().type() != device_type) return true;
    if (out.device < 0) out.device = tensor.device().index();
    return out.device == tensor.device().index();
  };
  if (!std::all_of(arguments.begin(), arguments.end(), on)) return std::nullopt;
  for (const c10::IValue &result : results) {
    if (!result.isTensor() && !result.isTensorList()) return std::nullopt;
    std::vector<ResultLayout> &layouts = out.returns.emplace_back();
    for (const at::Tensor &tensor : tensors_of(result)) {
      const std::optional<ResultLayout> layout = layout_of(arguments, tensor);
      if (!layout || !on(tensor)) return std::nullopt;
      layouts.push_back(*layout);
    }
  }
  if (out.device < 0) return std::nullopt;
  return out;
}

} // namespace tb::ops
