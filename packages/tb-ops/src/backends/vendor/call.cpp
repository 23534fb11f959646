// Describes calls.
#include "backends/vendor/call.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cmath>

namespace tb::ops::vendor {
namespace {

struct Pair {
  c10::ScalarType type;
  int32_t dtype;
};
constexpr Pair dtypes[] = {
    {c10::kBool, TB_DTYPE_BOOL},
    {c10::kByte, TB_DTYPE_UINT8},
    {c10::kChar, TB_DTYPE_INT8},
    {c10::kShort, TB_DTYPE_INT16},
    {c10::kInt, TB_DTYPE_INT32},
    {c10::kLong, TB_DTYPE_INT64},
    {c10::kHalf, TB_DTYPE_FLOAT16},
    {c10::kBFloat16, TB_DTYPE_BFLOAT16},
    {c10::kFloat, TB_DTYPE_FLOAT32},
    {c10::kDouble, TB_DTYPE_FLOAT64},
    {c10::kComplexFloat, TB_DTYPE_COMPLEX64},
    {c10::kComplexDouble, TB_DTYPE_COMPLEX128},
};

// The integer nearest to zero; 0 if it has no 64 bits.
int64_t truncated(double real) { return std::abs(real) < 0x1p63 ? static_cast<int64_t>(real) : 0; }

} // namespace

std::optional<int32_t> dtype_of(c10::ScalarType type) {
  for (const Pair &pair : dtypes)
    if (pair.type == type) return pair.dtype;
  return std::nullopt;
}

uint32_t layout_of(const at::Tensor &tensor) {
  if (tensor.is_contiguous()) return TB_LAYOUT_DENSE;
  const auto last = tensor.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  if ((tensor.dim() == 4 || tensor.dim() == 5) && tensor.is_contiguous(last)) return TB_LAYOUT_CHANNELS_LAST;
  for (int64_t i = 0; i < tensor.dim(); i++)
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) return TB_LAYOUT_BROADCAST;
  return TB_LAYOUT_STRIDED;
}

bool CallDescription::add(const c10::FunctionSchema &schema, c10::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); i++) {
    const c10::TypePtr &type = schema.arguments()[i].real_type();
    const auto is = [&](c10::TypeKind kind) {
      return type->kind() == kind ||
             (type->kind() == c10::TypeKind::OptionalType && type->containedType(0)->kind() == kind);
    };
    if (!add(arguments[i], is(c10::TypeKind::ScalarTypeType))) return false;
  }
  return true;
}

bool CallDescription::add(const c10::IValue &value, bool is_dtype) {
  const auto numbers = [&](const auto &items) {
    places_.push_back({TB_ARGUMENT_NUMBERS, static_cast<int32_t>(items.size()), numbers_.size(), nullptr});
    for (const auto &item : items) add_number(item);
    return true;
  };
  if (value.isNone()) {
    places_.push_back({TB_ARGUMENT_NONE, 0, 0, nullptr});
  } else if (value.isTensor()) {
    const at::Tensor &tensor = value.toTensor();
    if (!tensor.defined()) return add(c10::IValue(), false);
    if (tensor.is_cpu()) { // a number
      places_.push_back({TB_ARGUMENT_NUMBER, 1, numbers_.size(), nullptr});
      if (tensor.is_complex()) return false;
      add_number(tensor.item());
      return true;
    }
    places_.push_back({TB_ARGUMENT_TENSOR, 1, tensors_.size(), nullptr});
    add(tensor);
  } else if (value.isTensorList()) {
    const auto tensors = value.toListRef();
    places_.push_back({TB_ARGUMENT_TENSORS, static_cast<int32_t>(tensors.size()), tensors_.size(), nullptr});
    for (const c10::IValue &tensor : tensors) {
      if (!tensor.toTensor().defined() || tensor.toTensor().is_cpu()) return false;
      add(tensor.toTensor());
    }
  } else if (value.isInt() && is_dtype) {
    const std::optional<int32_t> dtype = dtype_of(value.toScalarType());
    if (!dtype) return false;
    places_.push_back({TB_ARGUMENT_NUMBER, 1, numbers_.size(), nullptr});
    add_number(int64_t{*dtype});
  } else if (value.isInt() || value.isDouble() || value.isBool()) {
    places_.push_back({TB_ARGUMENT_NUMBER, 1, numbers_.size(), nullptr});
    add_number(value.toScalar());
  } else if (value.isIntList()) {
    return numbers(value.toIntVector());
  } else if (value.isDoubleList()) {
    return numbers(value.toDoubleVector());
  } else if (value.isBoolList()) {
    std::vector<int64_t> items; // std::vector<bool> has no elements
    for (const bool item : value.toBoolList()) items.push_back(item);
    return numbers(items);
  } else if (value.isString()) {
    places_.push_back({TB_ARGUMENT_TEXT, 1, 0, value.toStringRef().c_str()});
  } else {
    return false;
  }
  return true;
}

void CallDescription::add(const at::Tensor &tensor) {
  const size_t item = tensor.element_size(), offset = static_cast<size_t>(tensor.storage_offset()) * item;
  tensors_.push_back({sizeof(tb_kernel_tensor), dtype_of(tensor.scalar_type()).value_or(-1),
                      static_cast<int32_t>(tensor.dim()), layout_of(tensor),
                      const_cast<void *>(tensor.const_data_ptr()), tensor.storage().nbytes() - offset,
                      tensor.sizes().data(), tensor.strides().data()});
}

void CallDescription::add_output(const at::Tensor &output) {
  add(output);
  if (!output.is_meta()) tensors_.back().data = output.mutable_data_ptr();
  outputs_++;
}

void CallDescription::add_number(const c10::Scalar &number) {
  if (number.isFloatingPoint()) {
    const double real = number.toDouble();
    numbers_.push_back({real, truncated(real), 0, 0});
  } else {
    const int64_t integer = number.isBoolean() ? number.toBool() : number.toLong();
    numbers_.push_back({static_cast<double>(integer), integer, 1, 0});
  }
}

tb_kernel_call CallDescription::call(c10::DeviceIndex device, bool planned) {
  if (planned)
    for (tb_kernel_tensor &tensor : tensors_) tensor.data = nullptr, tensor.bytes = 0;
  arguments_.clear();
  for (const Place &place : places_) {
    tb_kernel_argument &argument =
        arguments_.emplace_back(tb_kernel_argument{place.kind, place.count, nullptr, nullptr, nullptr});
    if (place.kind == TB_ARGUMENT_TENSOR || place.kind == TB_ARGUMENT_TENSORS)
      argument.tensors = tensors_.data() + place.first;
    if (place.kind == TB_ARGUMENT_NUMBER || place.kind == TB_ARGUMENT_NUMBERS)
      argument.numbers = numbers_.data() + place.first;
    if (place.kind == TB_ARGUMENT_TEXT) argument.text = place.text;
  }
  tb_kernel_call call{};
  call.struct_size = sizeof call;
  call.device = device;
  call.argument_count = static_cast<uint32_t>(arguments_.size());
  call.output_count = static_cast<uint32_t>(outputs_);
  call.arguments = arguments_.data();
  call.outputs = tensors_.data() + tensors_.size() - outputs_;
  return call;
}

} // namespace tb::ops::vendor
