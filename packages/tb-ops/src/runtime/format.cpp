// Formats operator calls.
#include "runtime/format.h"

#include <sstream>

#include "runtime/runtime.h"

namespace tb::ops {
namespace {

constexpr size_t longest_value = 60, longest_list = 4;

template <class List> std::string describe_list(const List &list) {
  std::string text = "[";
  for (size_t i = 0; i < list.size() && i < longest_list; i++) text += (i ? ", " : "") + describe(list[i]);
  if (list.size() > longest_list) text += ", ... " + std::to_string(list.size()) + " tensors";
  return text + "]";
}

std::string describe_value(const c10::IValue &value) {
  if (value.isTensor()) return describe(value.toTensor());
  if (value.isTensorList()) return describe_list(value.toTensorVector());
  if (value.isOptionalTensorList()) {
    std::vector<at::Tensor> tensors;
    for (const std::optional<at::Tensor> &item : value.toOptionalTensorVector())
      tensors.push_back(item.value_or(at::Tensor()));
    return describe_list(tensors);
  }
  if (value.isGenerator()) return "a generator";
  std::ostringstream text;
  text << value;
  return text.str().size() <= longest_value ? text.str() : text.str().substr(0, longest_value) + "...";
}

} // namespace

std::string name_of(const c10::OperatorHandle &op) {
  const c10::OperatorName &name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::string describe(const at::Tensor &tensor) {
  if (!tensor.defined()) return "None";
  std::ostringstream text;
  text << c10::getDtypeNames(tensor.scalar_type()).first << ' ' << tensor.sizes();
  if (tensor.device().type() != device_type) text << " on " << tensor.device();
  return text.str();
}

std::string describe_arguments(const c10::FunctionSchema &schema, c10::ArrayRef<c10::IValue> arguments) {
  std::string text;
  for (size_t i = 0; i < arguments.size(); i++) {
    if (arguments[i].isNone()) continue;
    text += (text.empty() ? "" : ", ") + schema.arguments()[i].name() + ": " + describe_value(arguments[i]);
  }
  return "(" + text + ")";
}

} // namespace tb::ops
