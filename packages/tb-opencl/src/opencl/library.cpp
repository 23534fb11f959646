#include "opencl/library.h"

#include <dlfcn.h>

#include <cstring>

#include "opencl/failure.h"

namespace tb::opencl {
namespace {

constexpr const char *default_file = "libOpenCL.so.1";

template <class Function> void find(void *found, Function &function) {
  if (found) std::memcpy(&function, &found, sizeof function);
}

} // namespace

tb_status load_library(const tb_host *host, const char *file, Functions *out) {
  const char *name = file ? file : default_file;
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return fail(host, TB_UNAVAILABLE, 0,
                "OpenCL's library cannot be loaded: %s. Install the distribution's OpenCL loader (ocl-icd-libopencl1 "
                "on Debian) and the device's OpenCL driver, or give the loader's file by the option \"library\" "
                "(TB_OPENCL_LIBRARY)",
                dlerror());
  std::string missing;
  int count = 0;
#define CORE(name)                                                                                                     \
  if (!out->name && ++count <= 4) missing += missing.empty() ? #name : ", " #name;
#define OPTIONAL(name)
#define EXTENSION(name)
#define OPENCL_FUNCTION(need, result, name, parameters)                                                                \
  find(dlsym(library, #name), out->name);                                                                              \
  need(name)
#include "opencl/functions.inc"
#undef OPENCL_FUNCTION
#undef CORE
#undef OPTIONAL
#undef EXTENSION
  if (missing.empty()) return TB_OK;
  return fail(host, TB_UNAVAILABLE, 0,
              "%s is no OpenCL loader of version 2.0 or later: it lacks %s%s. Install a newer one, or name it by the "
              "option \"library\" (TB_OPENCL_LIBRARY)",
              name, missing.c_str(), count > 4 ? (" and " + std::to_string(count - 4) + " more").c_str() : "");
}

void find_extensions(cl_platform_id platform, Functions *functions) {
#define CORE(name)
#define OPTIONAL(name)
#define EXTENSION(name) find(functions->clGetExtensionFunctionAddressForPlatform(platform, #name), functions->name);
#define OPENCL_FUNCTION(need, result, name, parameters) need(name)
#include "opencl/functions.inc"
#undef OPENCL_FUNCTION
#undef CORE
#undef OPTIONAL
#undef EXTENSION
}

} // namespace tb::opencl
