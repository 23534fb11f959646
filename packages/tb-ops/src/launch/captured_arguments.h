// Operator arguments of every kind on their way to the worker. A closure holds capture(argument); the CPU kernel gets
// materialize(captured).
#pragma once
#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <c10/util/DimVector.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/tensor_descriptor.h"

namespace tb::ops {

inline TensorDescriptor capture(const at::Tensor &tensor) { return TensorDescriptor(tensor); }
inline at::Tensor &materialize(TensorDescriptor &argument) { return argument.writable(); }

struct OptionalTensorDescriptor {
  explicit OptionalTensorDescriptor(const std::optional<at::Tensor> &tensor)
      : argument(tensor ? *tensor : at::Tensor()), present(tensor.has_value()) {}
  TensorDescriptor argument;
  bool present;
};
inline OptionalTensorDescriptor capture(const std::optional<at::Tensor> &t) { return OptionalTensorDescriptor(t); }
inline std::optional<at::Tensor> materialize(OptionalTensorDescriptor &a) {
  return a.present ? std::optional<at::Tensor>(materialize(a.argument)) : std::nullopt;
}

using TensorDescriptors = std::vector<TensorDescriptor>;
using WrittenDescriptors = std::vector<WrittenDescriptor>;
// Stored in the closure itself: the caller allocates nothing, and the worker frees nothing that another thread allocated.
using FewTensorDescriptors = c10::SmallVector<TensorDescriptor, 4>;
template <class Arguments = TensorDescriptors, class List> Arguments capture_list(const List &list) {
  Arguments out;
  out.reserve(list.size());
  for (const at::Tensor &tensor : list) out.emplace_back(tensor);
  return out;
}
inline FewTensorDescriptors capture(const at::ITensorListRef &list) {
  return list.isUnboxed() ? capture_list<FewTensorDescriptors>(list.toUnboxed())
                          : capture_list<FewTensorDescriptors>(list);
}
inline TensorDescriptors capture(const at::TensorList &list) { return capture_list(list); }
inline TensorDescriptors capture(const std::vector<at::Tensor> &list) { return capture_list(list); }
template <class Arguments> std::vector<at::Tensor> materialize(Arguments &arguments)
  requires std::is_same_v<typename Arguments::value_type, TensorDescriptor>
{
  std::vector<at::Tensor> out;
  out.reserve(arguments.size());
  for (TensorDescriptor &argument : arguments) out.push_back(materialize(argument));
  return out;
}

struct OptionalTensorDescriptors {
  std::vector<OptionalTensorDescriptor> list;
};
OptionalTensorDescriptors capture(const c10::List<std::optional<at::Tensor>> &list);
OptionalTensorDescriptors capture(const at::IOptTensorListRef &list);
c10::List<std::optional<at::Tensor>> materialize(OptionalTensorDescriptors &arguments);

inline c10::DimVector capture(c10::IntArrayRef list) { return c10::DimVector(list); }
inline c10::IntArrayRef materialize(const c10::DimVector &list) { return list; }

struct OptionalIntegers {
  std::optional<c10::DimVector> list;
};
inline OptionalIntegers capture(const c10::OptionalIntArrayRef &list) {
  return {list ? std::optional(c10::DimVector(*list)) : std::nullopt};
}
inline c10::OptionalIntArrayRef materialize(const OptionalIntegers &captured) {
  return captured.list ? c10::OptionalIntArrayRef(*captured.list) : c10::OptionalIntArrayRef();
}

struct OptionalDoubles {
  std::optional<std::vector<double>> list;
};
inline OptionalDoubles capture(const std::optional<c10::ArrayRef<double>> &list) {
  return {list ? std::optional(list->vec()) : std::nullopt};
}
inline std::optional<c10::ArrayRef<double>> materialize(const OptionalDoubles &captured) {
  return captured.list ? std::optional<c10::ArrayRef<double>>(*captured.list) : std::nullopt;
}

inline std::string capture(std::string_view text) { return std::string(text); }
inline std::string_view materialize(const std::string &text) { return text; }

struct OptionalText {
  std::optional<std::string> text;
};
inline OptionalText capture(const std::optional<std::string_view> &text) {
  return {text ? std::optional<std::string>(*text) : std::nullopt};
}
inline std::optional<std::string_view> materialize(const OptionalText &captured) {
  return captured.text ? std::optional<std::string_view>(*captured.text) : std::nullopt;
}

// Numbers, scalars, types and other plain values.
template <class T> T capture(const T &value)
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, c10::Scalar>)
{
  if constexpr (std::is_same_v<T, c10::Scalar>) launch_notes.add(value);
  return value;
}
template <class T> std::optional<T> capture(const std::optional<T> &value)
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, c10::Scalar>)
{
  if constexpr (std::is_same_v<T, c10::Scalar>)
    if (value) launch_notes.add(*value);
  return value;
}
template <class T, size_t N> std::array<T, N> capture(const std::array<T, N> &value) { return value; }
template <class T> const T &materialize(const T &value) { return value; }

} // namespace tb::ops
