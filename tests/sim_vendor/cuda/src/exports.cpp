// exports.cpp -- cuGetProcAddress: functions by name and version. The versions are those in which CUDA added them.
#include <dlfcn.h>

#include <cstring>

#include "world.h"

namespace simcuda {
namespace {

struct Export {
  const char *name;
  int version;
  const char *symbol;
};

constexpr Export exports[] = {
#define CUDA_FUNCTION(need, name, version, symbol, parameters) {#name, version, #symbol},
#include "functions.inc"
#undef CUDA_FUNCTION
    {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
    {"cuStreamCreate", 2000, "cuStreamCreate"},
    {"cuStreamGetPriority", 5050, "cuStreamGetPriority"},
    {"cuStreamGetFlags", 5050, "cuStreamGetFlags"},
    {"cuCtxPushCurrent", 4000, "cuCtxPushCurrent_v2"},
    {"cuCtxPopCurrent", 4000, "cuCtxPopCurrent_v2"},
    {"cuCtxGetDevice", 2000, "cuCtxGetDevice"},
    {"cuMemAllocHost", 3020, "cuMemAllocHost_v2"},
    {"cuMemGetAddressRange", 3020, "cuMemGetAddressRange_v2"},
    {"cuMemcpyAsync", 4000, "cuMemcpyAsync"},
    {"cuModuleLoadData", 2000, "cuModuleLoadData"},
};

bool hidden(const char *name) {
  const char *list = setting("TB_SIMCUDA_HIDE");
  return list && ("," + std::string(list) + ",").find("," + std::string(name) + ",") != std::string::npos;
}

// The newest form of a function that a program of `version` knows. `status` is that of cuGetProcAddress_v2.
void *look_up(const char *name, int version, int *status) {
  *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const Export *best = nullptr;
  for (const Export &one : exports) {
    if (std::strcmp(one.name, name) != 0 || hidden(name)) continue;
    *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (one.version <= version && one.version <= world().version && (!best || best->version < one.version)) best = &one;
  }
  if (!best) return nullptr;
  *status = CU_GET_PROC_ADDRESS_SUCCESS;
  Dl_info here;
  if (!dladdr(reinterpret_cast<void *>(&look_up), &here)) return nullptr;
  // The look-up is limited to this library, since the program may link another version.
  void *self = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  void *found = self ? dlsym(self, best->symbol) : nullptr;
  if (self) dlclose(self);
  return found;
}

} // namespace
} // namespace simcuda

using namespace simcuda;

extern "C" CUresult cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t, int *status) {
  return call<"cuGetProcAddress_v2">([&]() -> CUresult {
    int found = 0;
    *out = look_up(name, version, &found);
    if (status) *status = found;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
}

extern "C" CUresult cuGetProcAddress(const char *name, void **out, int version, uint64_t) {
  return call<"cuGetProcAddress">([&]() -> CUresult {
    int found = 0;
    *out = look_up(name, version, &found);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
}
