// Kernels in source that other components generate (tb_generated_kernel of tb/operator_table.h).
#pragma once
#include <string>

#include "tb/operator_table.h"

namespace tb::ops::jit {

// Returns why the open driver's devices do not run such kernels; an empty string if they do. After open().
std::string generated_kernels_obstacle();

// The functions of tb_ops_table. Any thread may call them.
void load_generated(tb_generated_kernel *kernel, int32_t device);
void launch_generated(tb_generated_kernel *kernel, int32_t device, int64_t items, const uint64_t *arguments,
                      uint64_t count);

} // namespace tb::ops::jit
