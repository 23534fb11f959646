// tb-ops' function table (tb/operator_table.h), through which other libraries launch their operators.
#pragma once
#include <torch/version.h>

#include "tb/operator_table.h"

namespace tb::ops {

// For which tb-ops was compiled.
inline constexpr int32_t torch_major = TORCH_VERSION_MAJOR, torch_minor = TORCH_VERSION_MINOR;

extern const tb_export exported;

// Calls the functions that were passed to on_native. Later calls of on_native call their function at once.
void register_custom();

} // namespace tb::ops
