// Operators and host code of other libraries, which launch them through tb-ops' function table (tb/operator_table.h).
#pragma once
#include <torch/version.h>

#include "tb/operator_table.h"

namespace tb::ops {

// For which tb-ops was compiled.
inline constexpr int32_t torch_major = TORCH_VERSION_MAJOR, torch_minor = TORCH_VERSION_MINOR;

// The functions of tb_ops_table.
void on_native(void (*function)());
void launch_custom(tb_operator *op, int32_t device, const void *const *tensors, uint64_t count, uint32_t flags,
                   void *state);
void launch_code(tb_code *code, int32_t device, void *const *arguments, uint64_t count, int64_t elements);

// Calls the functions that were passed to on_native. Later calls of on_native call their function at once.
void register_custom();

} // namespace tb::ops
