// Compares the devices of all tensors of a call.
#include "dispatch/device_check.h"

#include <algorithm>
#include <string_view>

#include "runtime/format.h"
#include "runtime/runtime.h"
#include "runtime/same_device.h"

namespace tb::ops {
namespace {

enum class Rule { one_device, numbers_of_the_host, own, other_library };

// Copies write to another device than they read, probabilities may be on any device, positions and the sizes of nested
// tensors on the CPU, lists are checked tensor by tensor, and quantized tensors are refused wherever their scales are.
constexpr std::string_view with_rules_of_their_own[] = {"_copy_from",
                                                        "_copy_from_and_resize",
                                                        "_index_put_impl_",
                                                        "_make_per_channel_quantized_tensor",
                                                        "_nested_from_padded",
                                                        "_nested_view_from_buffer",
                                                        "_nested_view_from_buffer_copy",
                                                        "_to_copy",
                                                        "bernoulli.out",
                                                        "bernoulli_.Tensor",
                                                        "copy_",
                                                        "copy_sparse_to_sparse_",
                                                        "index.Tensor",
                                                        "index.Tensor_out",
                                                        "index_put",
                                                        "index_put_",
                                                        "quantize_per_channel",
                                                        "quantize_per_tensor.tensor_qparams",
                                                        "quantize_per_tensor.tensors",
                                                        "resize_as_",
                                                        "set_.source_Tensor"};

Rule rule_of(std::string_view name) {
  constexpr std::string_view aten = "aten::";
  if (!name.starts_with(aten)) return Rule::other_library;
  name.remove_prefix(aten.size());
  if (name == "binomial") return Rule::one_device; // its iterator takes no numbers of the host
  if (name.starts_with("_foreach_") || std::find(std::begin(with_rules_of_their_own), std::end(with_rules_of_their_own),
                                                 name) != std::end(with_rules_of_their_own))
    return Rule::own;
  const c10::ArrayRef<const char *> unchecked = operators_without_device_check();
  return std::binary_search(unchecked.begin(), unchecked.end(), name) ? Rule::numbers_of_the_host : Rule::one_device;
}

template <class Look> void each_tensor(const c10::IValue &value, const Look &look) {
  if (value.isTensor()) {
    if (const at::Tensor &tensor = value.toTensor(); tensor.defined()) look(tensor);
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue &item : value.toListRef())
      if (item.isTensor() && item.toTensor().defined()) look(item.toTensor());
  }
}

size_t tensors_to_read(const c10::FunctionSchema &schema) {
  const auto is_read = [](const c10::Argument &argument) {
    return argument.type()->kind() == c10::TypeKind::TensorType && !argument.is_out();
  };
  return static_cast<size_t>(std::count_if(schema.arguments().begin(), schema.arguments().end(), is_read));
}

} // namespace

void check_devices(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments) {
  std::optional<c10::Device> first;
  bool differ = false;
  for (const c10::IValue &value : arguments)
    each_tensor(value, [&](const at::Tensor &tensor) {
      if (!first) first = tensor.device();
      differ |= tensor.device() != *first;
    });
  if (!differ) return;
  const std::string name = name_of(op);
  const Rule rule = rule_of(name);
  if (rule == Rule::own) return;
  first.reset();
  // Iterators with one tensor to read take no number instead of it. Fused optimizers take their rate from the host.
  const bool takes_numbers = (rule == Rule::numbers_of_the_host && tensors_to_read(op.schema()) > 1) ||
                             std::string_view(name).ends_with(".tensor_lr");
  int numbers = 0;
  const auto allowed = [&](const at::Tensor &tensor, bool written) {
    if (!tensor.is_cpu()) return false;
    // An iterator takes one number.
    return rule == Rule::other_library || (takes_numbers && tensor.dim() == 0 && !written && ++numbers == 1);
  };
  for (size_t i = 0; i < arguments.size(); i++) {
    const c10::AliasInfo *alias = op.schema().arguments()[i].alias_info();
    each_tensor(arguments[i], [&](const at::Tensor &tensor) {
      if (allowed(tensor, alias && alias->isWrite())) return;
      if (!first) first = tensor.device();
      if (tensor.device() != *first) refuse_devices(name.c_str(), *first, tensor.device());
    });
  }
}

bool needs_one_device(std::string_view operation) { return rule_of(operation) == Rule::one_device; }

std::optional<c10::DeviceIndex> device_of_call(c10::ArrayRef<c10::IValue> arguments) {
  std::optional<c10::DeviceIndex> named, holds;
  for (const c10::IValue &value : arguments) {
    if (value.isDevice() && value.toDevice().type() == device_type && value.toDevice().has_index())
      named = value.toDevice().index();
    each_tensor(value, [&](const at::Tensor &tensor) {
      if (!holds && tensor.device().type() == device_type) holds = tensor.device().index();
    });
  }
  return named ? named : holds;
}

} // namespace tb::ops
