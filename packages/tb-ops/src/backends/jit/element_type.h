// PyTorch's dtypes as the kernels name them.
#pragma once
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <initializer_list>
#include <string>

#include "runtime/runtime.h"
#include "tb_ops/device_kernels/arguments.h"

namespace tb::ops::jit {

// Returns the kernels' number of a type (kernels::Type), or -1 for a type that they do not have.
int type_code(c10::ScalarType type);
// The C++ type that a kernel is instantiated with: "float", "Half", "Long"...
const char *type_name(c10::ScalarType type);

// Whether the kernels have the type on a device, which may lack 64-bit floats.
bool has_type(c10::DeviceIndex device, c10::ScalarType type);

// Whether the kernels accept all tensors. They must be on one device and have types that it has, and may not be sparse or
// lazily conjugated or negated. Undefined tensors are accepted.
bool supported(std::initializer_list<const at::Tensor *> tensors);

kernels::Scalar scalar_of(const c10::Scalar &value);
// Throws, as the CPU's kernels do, if a number does not fit the type.
void check_number(const c10::Scalar &number, c10::ScalarType type);
inline kernels::Operand operand_of(const at::Tensor &tensor) {
  return {const_cast<void *>(tensor.const_data_ptr()), type_code(tensor.scalar_type()), 0};
}

// Returns the name of a template's instance, such as "name<float>".
std::string instance(const char *name, c10::ScalarType type);

} // namespace tb::ops::jit
