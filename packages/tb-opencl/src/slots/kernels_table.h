// The extension "tb.kernels": how tb-ops' kernels become images for OpenCL.
#pragma once

#include "driver/driver.h"

namespace tb::opencl {

// Fills the extension's table as far as `size` bytes reach. False: there is no such extension or version.
bool give_kernels_table(tb_driver *self, const char *name, uint32_t version, void *table, uint32_t size);

} // namespace tb::opencl
