// Lists of optional tensors.
#include "launch/captured_arguments.h"

namespace tb::ops {

OptionalTensorDescriptors capture(const c10::List<std::optional<at::Tensor>> &list) {
  OptionalTensorDescriptors out;
  out.list.reserve(list.size());
  for (size_t i = 0; i < list.size(); i++) out.list.emplace_back(list.get(i));
  return out;
}

OptionalTensorDescriptors capture(const at::IOptTensorListRef &list) {
  OptionalTensorDescriptors out;
  out.list.reserve(list.size());
  for (const at::OptionalTensorRef tensor : list)
    out.list.emplace_back(tensor.has_value() ? std::optional<at::Tensor>(*tensor) : std::nullopt);
  return out;
}

c10::List<std::optional<at::Tensor>> materialize(OptionalTensorDescriptors &arguments) {
  c10::List<std::optional<at::Tensor>> out;
  out.reserve(arguments.list.size());
  for (OptionalTensorDescriptor &argument : arguments.list) out.push_back(materialize(argument));
  return out;
}

} // namespace tb::ops
