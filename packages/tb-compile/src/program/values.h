// Python's values as PyTorch's operators take them, and back.
#pragma once
#include <nanobind/nanobind.h>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace tb {

// What a parameter of this type takes for `value`: a number where it wants a tensor becomes a 0-dim tensor, as in
// x * 2. Throws NotImplementedError for types that no graph of ours has.
c10::IValue to_ivalue(nanobind::handle value, const c10::TypePtr &type);

// Tensors, numbers, None and lists of these.
nanobind::object to_python(const c10::IValue &value);

} // namespace tb
