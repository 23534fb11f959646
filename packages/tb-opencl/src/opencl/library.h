// The functions of libOpenCL.so.1, the loader that finds the implementations (platforms) of a machine.
#pragma once

#include <string>

#include "opencl/api.h"
#include "tb/driver.h"

namespace tb::opencl {

struct Functions {
#define OPENCL_FUNCTION(need, result, name, parameters) result(*name) parameters = nullptr;
#include "opencl/functions.inc"
#undef OPENCL_FUNCTION
};

// Loads the library, which stays loaded. `file` is the driver's option "library", or null. A failure is
// TB_UNAVAILABLE with a text.
tb_status load_library(const tb_host *host, const char *file, Functions *out);

// Finds the functions of extensions. Those that the platform lacks stay null.
void find_extensions(cl_platform_id platform, Functions *functions);

} // namespace tb::opencl
