// Converts values by the types of schemas.
#include "tb/tensor_caster.h"

#include "program/values.h"

#include <nanobind/stl/complex.h>
#include <nanobind/stl/string.h>

#include <ATen/ScalarOps.h>
#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

namespace nb = nanobind;

namespace tb::compile {
namespace {

// The part of a value's text after the dot, such as "float32" of "torch.float32".
std::string name_of(nb::handle value) {
  const std::string text = nb::str(value).c_str();
  return text.substr(text.rfind('.') + 1);
}

// The type's name: "torch.dtype", or "int" for a built-in type.
std::string type_of(nb::handle value) {
  const std::string module = nb::str(value.type().attr("__module__")).c_str();
  const std::string name = nb::str(value.type().attr("__qualname__")).c_str();
  return module == "builtins" ? name : module + "." + name;
}

[[noreturn]] void refuse(nb::handle value, const c10::TypePtr &type) {
  C10_THROW_ERROR(NotImplementedError,
                  c10::str("a value of type ", type_of(value), " where an operator takes ", type->annotation_str()));
}

bool is_a(nb::handle value, std::string_view type) { return type_of(value) == type; }

c10::Scalar to_scalar(nb::handle value, const c10::TypePtr &type) {
  if (PyBool_Check(value.ptr())) return nb::cast<bool>(value);
  if (PyLong_Check(value.ptr())) return nb::cast<int64_t>(value);
  if (PyFloat_Check(value.ptr())) return nb::cast<double>(value);
  if (PyComplex_Check(value.ptr())) {
    const auto number = nb::cast<std::complex<double>>(value);
    return c10::complex<double>(number.real(), number.imag());
  }
  refuse(value, type);
}

// Enumerations have the type int in schemas.
int64_t to_int(nb::handle value, const c10::TypePtr &type) {
  if (PyLong_Check(value.ptr())) return nb::cast<int64_t>(value);
  if (is_a(value, "torch.dtype")) {
    const auto &types = c10::getStringToDtypeMap();
    if (const auto found = types.find(name_of(value)); found != types.end()) return static_cast<int64_t>(found->second);
  }
  const std::string name = name_of(value);
  if (is_a(value, "torch.layout") && name == "strided") return static_cast<int64_t>(c10::Layout::Strided);
  if (is_a(value, "torch.memory_format")) {
    if (name == "contiguous_format") return static_cast<int64_t>(c10::MemoryFormat::Contiguous);
    if (name == "preserve_format") return static_cast<int64_t>(c10::MemoryFormat::Preserve);
    if (name == "channels_last") return static_cast<int64_t>(c10::MemoryFormat::ChannelsLast);
    if (name == "channels_last_3d") return static_cast<int64_t>(c10::MemoryFormat::ChannelsLast3d);
  }
  refuse(value, type);
}

c10::IValue to_list(nb::handle value, const c10::TypePtr &element) {
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value)) refuse(value, element);
  c10::impl::GenericList list(element);
  for (const nb::handle one : nb::iter(value)) list.push_back(to_ivalue(one, element));
  return list;
}

} // namespace

c10::IValue to_ivalue(nb::handle value, const c10::TypePtr &type) {
  if (value.is_none()) return {};
  switch (type->kind()) {
  case c10::TypeKind::OptionalType:
    return to_ivalue(value, type->castRaw<c10::OptionalType>()->getElementType());
  case c10::TypeKind::ListType:
    return to_list(value, type->castRaw<c10::ListType>()->getElementType());
  case c10::TypeKind::TensorType: {
    if (tensor_check(value.ptr())) return tensor_unpack(value.ptr());
    at::Tensor wrapped = c10::scalar_to_tensor(to_scalar(value, type));
    wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
    return wrapped;
  }
  case c10::TypeKind::BoolType:
    if (PyBool_Check(value.ptr())) return nb::cast<bool>(value);
    refuse(value, type);
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
    return to_int(value, type);
  case c10::TypeKind::FloatType:
    return to_scalar(value, type).toDouble();
  case c10::TypeKind::NumberType:
    return to_scalar(value, type);
  case c10::TypeKind::StringType:
    if (PyUnicode_Check(value.ptr())) return nb::cast<std::string>(value);
    refuse(value, type);
  case c10::TypeKind::DeviceObjType:
    return c10::Device(nb::str(value).c_str());
  default:
    refuse(value, type);
  }
}

nb::object to_python(const c10::IValue &value) {
  if (value.isNone()) return nb::none();
  if (value.isTensor()) return value.toTensor().defined() ? nb::cast(value.toTensor()) : nb::none();
  if (value.isBool()) return nb::cast(value.toBool());
  if (value.isInt()) return nb::cast(value.toInt());
  if (value.isDouble()) return nb::cast(value.toDouble());
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return nb::cast(std::complex<double>(number.real(), number.imag()));
  }
  if (value.isList()) {
    nb::list list;
    for (const c10::IValue &one : value.toListRef()) list.append(to_python(one));
    return list;
  }
  C10_THROW_ERROR(NotImplementedError, c10::str("a result of type ", value.tagKind()));
}

} // namespace tb::compile
