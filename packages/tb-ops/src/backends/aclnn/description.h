// Converts PyTorch's values to those that the vendor's library takes: descriptions of tensors and numbers, and C types.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "backends/aclnn/library.h"

namespace tb::ops::aclnn {

enum class DataType : int {}; // the library's C enum aclDataType

// Returns DataType{-1} for a type that the library does not have.
DataType data_type(c10::ScalarType type);

// These structs say how a call uses a tensor. The library gets NULL for an undefined tensor.
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

// Owns the objects that describe one call's arguments to the library. It also records the places of the tensors, at
// which a reused executor gets the tensors of a later call.
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
  char *operator()(const char *text) { return const_cast<char *>(text); } // a string literal
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

// Collects everything that an executor depends on, except addresses. Calls with equal keys can use the same executor.
class Key {
public:
  explicit Key(const void *function, c10::DeviceIndex device) { bytes(function), bytes(device); }

  void add(const Input &input) { tensor(input.tensor); }
  void add(const Output &output) { tensor(output.tensor); }
  void add(const InPlace &) { repeatable_ = false; } // it is an input and an output, and has no one index
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
  // The addresses of the tensors' storages, in the order of the call.
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

// Describes a tensor for error messages, such as "Float[2, 3]".
std::string describe(const at::Tensor &tensor);

} // namespace tb::ops::aclnn
