// PyTorch's values as the vendor's library takes them: descriptions of tensors and numbers, and the C types of a call.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "backends/aclnn/library.h"

namespace tb::ops::aclnn {

enum class DataType : int {}; // aclDataType; a C enum of its own in the library

// -1: the library has no elements of that type.
DataType data_type(c10::ScalarType type);

// How a call uses a tensor. Undefined ones are NULL to the library.
struct Input {
  const at::Tensor &tensor;
};
struct Output {
  const at::Tensor &tensor;
};
struct InPlace {
  const at::Tensor &tensor; // read and written through one parameter
};
struct List {
  const std::vector<at::Tensor> &tensors;
};

// The objects that one call hands to the library, destroyed with this, and the places of its tensors, for a second use of an
// executor.
class Descriptions {
public:
  struct Place {
    native::Tensor *description;
    size_t index; // among the inputs, or the outputs
    bool output;
  };

  Descriptions() = default;
  Descriptions(Descriptions &&other) noexcept;
  Descriptions &operator=(Descriptions &&other) noexcept;
  ~Descriptions() { clear(); }

  native::Tensor *operator()(const Input &input);
  native::Tensor *operator()(const Output &output);
  native::Tensor *operator()(const InPlace &tensor);
  native::TensorList *operator()(const List &list);
  native::Scalar *operator()(const c10::Scalar &value);
  native::Scalar *operator()(const std::optional<c10::Scalar> &value) { return value ? (*this)(*value) : nullptr; }
  native::IntArray *operator()(c10::IntArrayRef values);
  native::BoolArray *operator()(const std::array<bool, 3> &values);
  char *operator()(const char *text) { return const_cast<char *>(text); } // lives for ever
  template <class Plain>
    requires(std::is_arithmetic_v<Plain> || std::is_enum_v<Plain>)
  Plain operator()(Plain value) {
    return value;
  }

  const std::vector<Place> &places() const { return places_; }
  void clear() noexcept;

private:
  using Destroy = Status (*)(const void *);
  template <class Object> Object *keep(Object *object);
  static native::Tensor *describe(const at::Tensor &tensor);

  std::vector<std::pair<const void *, Destroy>> objects_;
  std::vector<Place> places_;
  size_t inputs_ = 0, outputs_ = 0;
};

// Everything that a description depends on except addresses: equal keys, equal executors.
class Key {
public:
  explicit Key(const void *function, c10::DeviceIndex device) { bytes(function), bytes(device); }

  void add(const Input &input) { tensor(input.tensor); }
  void add(const Output &output) { tensor(output.tensor); }
  void add(const InPlace &) { repeatable_ = false; } // no number distinguishes its two roles
  void add(const List &) { repeatable_ = false; }
  void add(const c10::Scalar &value);
  void add(const std::optional<c10::Scalar> &value);
  void add(c10::IntArrayRef values);
  void add(const std::array<bool, 3> &values) { bytes(values); }
  void add(const char *text) { text_ += text, text_ += '\0'; }
  template <class Plain>
    requires(std::is_arithmetic_v<Plain> || std::is_enum_v<Plain>)
  void add(Plain value) {
    bytes(value);
  }

  bool repeatable() const { return repeatable_; }
  const std::string &text() const { return text_; }
  // Where the storages of its tensors begin, in the order of the call.
  const std::vector<void *> &storages() const { return storages_; }

private:
  template <class Plain> void bytes(const Plain &value) {
    text_.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  void tensor(const at::Tensor &tensor);

  std::string text_;
  std::vector<void *> storages_;
  bool repeatable_ = true;
};

// "float32[2, 3]": for messages.
std::string describe(const at::Tensor &tensor);

} // namespace tb::ops::aclnn
