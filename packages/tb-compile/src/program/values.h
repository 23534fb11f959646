// Converts Python's values to arguments of PyTorch's operators, and results back.
#pragma once
#include <nanobind/nanobind.h>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace tb::compile {

// Converts `value` to an argument of this type. A number for a tensor becomes a 0-dimensional tensor, as in x * 2.
// Throws NotImplementedError for a type that graphs do not have.
c10::IValue to_ivalue(nanobind::handle value, const c10::TypePtr &type);

// Converts tensors, numbers, None and lists of these.
nanobind::object to_python(const c10::IValue &value);

} // namespace tb::compile
