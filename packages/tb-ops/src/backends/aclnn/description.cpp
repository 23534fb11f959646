// Describes arguments to the library, and computes the keys by which calls share executors.
#include "backends/aclnn/description.h"

#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace tb::ops::aclnn {
namespace {

struct Known {
  c10::ScalarType type;
  int code;
};
constexpr Known known[] = {
    {c10::kFloat, 0}, {c10::kHalf, 1},          {c10::kChar, 2},           {c10::kInt, 3},
    {c10::kByte, 4},  {c10::kShort, 6},         {c10::kLong, 9},           {c10::kDouble, 11},
    {c10::kBool, 12}, {c10::kComplexFloat, 16}, {c10::kComplexDouble, 17}, {c10::kBFloat16, 27},
};
constexpr int format_plain = 2; // ACL_FORMAT_ND

void *storage_of(const at::Tensor &tensor) { return const_cast<void *>(tensor.storage().data()); }

int64_t storage_elements(const at::Tensor &tensor) {
  return static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
}

} // namespace

DataType data_type(c10::ScalarType type) {
  for (const Known &one : known)
    if (one.type == type) return DataType{one.code};
  return DataType{-1};
}

std::string describe(const at::Tensor &tensor) {
  return tensor.defined() ? c10::str(tensor.scalar_type(), tensor.sizes()) : "nothing";
}

// ---- descriptions -----------------------------------------------------------------------------------------------

template <class Object> Object *Descriptions::keep(Object *object) {
  TORCH_CHECK(object, "the library of operators could not describe an argument: it is out of host memory, or aclInit "
                      "has failed");
  const Library &l = library();
  Destroy destroy = nullptr;
  if constexpr (std::is_same_v<Object, native::Tensor>) destroy = reinterpret_cast<Destroy>(l.destroy_tensor);
  if constexpr (std::is_same_v<Object, native::Scalar>) destroy = reinterpret_cast<Destroy>(l.destroy_scalar);
  if constexpr (std::is_same_v<Object, native::IntArray>) destroy = reinterpret_cast<Destroy>(l.destroy_ints);
  if constexpr (std::is_same_v<Object, native::BoolArray>) destroy = reinterpret_cast<Destroy>(l.destroy_bools);
  if constexpr (std::is_same_v<Object, native::TensorList>) destroy = reinterpret_cast<Destroy>(l.destroy_list);
  objects_.emplace_back(object, destroy);
  return object;
}

Descriptions::Descriptions(Descriptions &&other) noexcept
    : objects_(std::exchange(other.objects_, {})), places_(std::exchange(other.places_, {})) {}

Descriptions &Descriptions::operator=(Descriptions &&other) noexcept {
  std::swap(objects_, other.objects_);
  std::swap(places_, other.places_);
  return *this;
}

void Descriptions::clear() noexcept {
  for (const auto &[object, destroy] : objects_) destroy(object);
  objects_.clear();
  places_.clear();
}

native::Tensor *Descriptions::describe(const at::Tensor &tensor) {
  const int64_t elements = storage_elements(tensor);
  return library().create_tensor(tensor.sizes().data(), static_cast<uint64_t>(tensor.dim()),
                                 static_cast<int>(data_type(tensor.scalar_type())), tensor.strides().data(),
                                 tensor.storage_offset(), format_plain, &elements, 1, storage_of(tensor));
}

native::Tensor *Descriptions::operator()(const Input &input) {
  const size_t index = inputs_++;
  if (!input.tensor.defined()) return nullptr;
  native::Tensor *made = keep(describe(input.tensor));
  places_.push_back({made, index, false});
  return made;
}

native::Tensor *Descriptions::operator()(const Output &output) {
  const size_t index = outputs_++;
  if (!output.tensor.defined()) return nullptr;
  native::Tensor *made = keep(describe(output.tensor));
  places_.push_back({made, index, true});
  return made;
}

native::Tensor *Descriptions::operator()(const InPlace &tensor) {
  return tensor.tensor.defined() ? keep(describe(tensor.tensor)) : nullptr;
}

native::TensorList *Descriptions::operator()(const List &list) {
  std::vector<const native::Tensor *> made;
  for (const at::Tensor &tensor : list.tensors) made.push_back(describe(tensor));
  return keep(library().create_list(made.data(), made.size()));
}

native::Scalar *Descriptions::operator()(const c10::Scalar &value) {
  if (value.isBoolean()) {
    bool held = value.toBool();
    return keep(library().create_scalar(&held, static_cast<int>(data_type(c10::kBool))));
  }
  if (value.isIntegral(false)) {
    int64_t held = value.toLong();
    return keep(library().create_scalar(&held, static_cast<int>(data_type(c10::kLong))));
  }
  if (value.isComplex()) {
    c10::complex<double> held = value.toComplexDouble();
    return keep(library().create_scalar(&held, static_cast<int>(data_type(c10::kComplexDouble))));
  }
  double held = value.toDouble();
  return keep(library().create_scalar(&held, static_cast<int>(data_type(c10::kDouble))));
}

native::IntArray *Descriptions::operator()(c10::IntArrayRef values) {
  return keep(library().create_ints(values.data(), values.size()));
}

native::BoolArray *Descriptions::operator()(const std::array<bool, 3> &values) {
  return keep(library().create_bools(values.data(), values.size()));
}

// ---- keys -------------------------------------------------------------------------------------------------------

void Key::tensor(const at::Tensor &tensor) {
  if (!tensor.defined()) {
    repeatable_ = false;
    return;
  }
  bytes(tensor.scalar_type());
  bytes(tensor.dim());
  for (const int64_t size : tensor.sizes()) bytes(size);
  for (const int64_t stride : tensor.strides()) bytes(stride);
  bytes(tensor.storage_offset());
  bytes(storage_elements(tensor));
  // The library may plan a call differently if a result shares an argument's storage, so the key records which storages
  // are the same.
  void *storage = storage_of(tensor);
  bytes(std::find(storages_.begin(), storages_.end(), storage) - storages_.begin());
  storages_.push_back(storage);
}

void Key::add(const c10::Scalar &value) {
  bytes(value.type());
  if (value.isComplex())
    bytes(value.toComplexDouble());
  else if (value.isFloatingPoint())
    bytes(value.toDouble());
  else
    bytes(value.toLong());
}

void Key::add(const std::optional<c10::Scalar> &value) {
  bytes(value.has_value());
  if (value) add(*value);
}

void Key::add(c10::IntArrayRef values) {
  bytes(values.size());
  for (const int64_t value : values) bytes(value);
}

} // namespace tb::ops::aclnn
