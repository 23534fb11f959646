// PyTorch's dtypes as the kernels name them.
#pragma once
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <initializer_list>
#include <string>

#include "runtime/runtime.h"
#include "tb_ops/device_kernels/arguments.h"

namespace tb::ops::jit {

// The kernels' number of a type (kernels::Type); -1 for types that they do not have.
int type_code(c10::ScalarType type);
// The C++ type that a kernel is instantiated with: "float", "Half", "Long"...
const char *type_name(c10::ScalarType type);

// Whether kernels can take all of these: known types, no lazy conjugation or negation. Undefined tensors count as good.
bool supported(std::initializer_list<const at::Tensor *> tensors);

kernels::Scalar scalar_of(const c10::Scalar &value);
inline kernels::Operand operand_of(const at::Tensor &tensor) {
  return {const_cast<void *>(tensor.const_data_ptr()), type_code(tensor.scalar_type()), 0};
}

// "name<float>".
std::string instance(const char *name, c10::ScalarType type);

} // namespace tb::ops::jit
