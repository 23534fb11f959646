// PyTorch's types as the kernels know them.
#include "backends/jit/element_type.h"

#include <ATen/core/Tensor.h>

#include <optional>

#include "backends/jit/device_facts.h"

namespace tb::ops::jit {
namespace {

struct Known {
  c10::ScalarType type;
  int code;
  const char *name;
};
constexpr Known known[] = {
    {c10::kBool, kernels::Bool, "bool"},        {c10::kByte, kernels::UInt8, "unsigned char"},
    {c10::kChar, kernels::Int8, "signed char"}, {c10::kShort, kernels::Int16, "short"},
    {c10::kInt, kernels::Int32, "int"},         {c10::kLong, kernels::Int64, "Long"},
    {c10::kHalf, kernels::Float16, "Half"},     {c10::kBFloat16, kernels::BFloat16, "Bfloat"},
    {c10::kFloat, kernels::Float32, "float"},   {c10::kDouble, kernels::Float64, "double"},
};

const Known *find(c10::ScalarType type) {
  for (const Known &one : known)
    if (one.type == type) return &one;
  return nullptr;
}

} // namespace

int type_code(c10::ScalarType type) {
  const Known *one = find(type);
  return one ? one->code : -1;
}

const char *type_name(c10::ScalarType type) {
  const Known *one = find(type);
  TORCH_CHECK_NOT_IMPLEMENTED(one, "the device's kernels have no elements of type ", type);
  return one->name;
}

bool has_type(c10::DeviceIndex device, c10::ScalarType type) {
  return type_code(type) >= 0 && (type != c10::kDouble || facts_of(device).float64);
}

bool supported(std::initializer_list<const at::Tensor *> tensors) {
  std::optional<c10::Device> device;
  for (const at::Tensor *tensor : tensors) {
    if (!tensor->defined()) continue;
    if (!has_type(tensor->device().index(), tensor->scalar_type()) || tensor->is_neg() || tensor->is_conj() ||
        tensor->is_sparse() || (device && tensor->device() != *device))
      return false;
    device = tensor->device();
  }
  return true;
}

kernels::Scalar scalar_of(const c10::Scalar &value) {
  if (value.isComplex()) return {value.toComplexDouble().real(), 0};
  if (value.isFloatingPoint()) {
    const double real = value.toDouble();
    constexpr double beyond = 0x1p63;
    return {real, real > -beyond && real < beyond ? static_cast<kernels::Long>(real) : 0};
  }
  return {value.toDouble(), static_cast<kernels::Long>(value.toLong())};
}

std::string instance(const char *name, c10::ScalarType type) { return std::string(name) + "<" + type_name(type) + ">"; }

void check_number(const c10::Scalar &number, c10::ScalarType type) {
  switch (type) {
  case c10::kByte:
    return void(number.to<uint8_t>());
  case c10::kChar:
    return void(number.to<int8_t>());
  case c10::kShort:
    return void(number.to<int16_t>());
  case c10::kInt:
    return void(number.to<int32_t>());
  case c10::kLong:
    return void(number.to<int64_t>());
  case c10::kHalf:
    return void(number.to<c10::Half>());
  case c10::kBFloat16:
    return void(number.to<c10::BFloat16>());
  case c10::kFloat:
    return void(number.to<float>());
  case c10::kDouble:
    return void(number.to<double>());
  default:
    return;
  }
}

} // namespace tb::ops::jit
