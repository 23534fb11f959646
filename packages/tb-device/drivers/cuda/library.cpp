// Finding libcuda and its functions.
#include "drivers/cuda/library.h"

#include <dlfcn.h>

#include <cstring>

#include "drivers/common/error_text.h"
#include "drivers/cuda/status.h"

namespace tb::drivers::cuda {
namespace {

using GetAddress = CUresult (*)(const char *name, void **out, int version, uint64_t flags, int *status);
using GetAddressOld = CUresult (*)(const char *name, void **out, int version, uint64_t flags); // before 12.0

constexpr int oldest = 11000; // the first with the present form of the primary context's functions
constexpr const char *remedy = "Install NVIDIA's driver for this machine, or give its library's file by the driver's "
                               "option \"library\" (TB_CUDA_LIBRARY)";

template <class F> F symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  F function = nullptr;
  if (found) std::memcpy(&function, &found, sizeof function);
  return function;
}

// Where cuGetProcAddress is, its answer counts also when it is no; only a library without it is asked by symbols.
class Finder {
public:
  explicit Finder(void *library)
      : library_(library), get_(symbol<GetAddress>(library, "cuGetProcAddress_v2")),
        get_old_(symbol<GetAddressOld>(library, "cuGetProcAddress")) {}
  template <class F> void find(F &function, const char *name, int version, const char *by_symbol) const {
    void *found = nullptr;
    int status = 0;
    if (get_ && get_(name, &found, version, 0, &status) != CUDA_SUCCESS) found = nullptr;
    if (!get_ && get_old_ && get_old_(name, &found, version, 0) != CUDA_SUCCESS) found = nullptr;
    if (!get_ && !get_old_) found = dlsym(library_, by_symbol);
    if (found) std::memcpy(&function, &found, sizeof function);
  }

private:
  void *const library_;
  const GetAddress get_;
  const GetAddressOld get_old_;
};

} // namespace

bool Api::has(Need need) const {
#define CUDA_FUNCTION(group, name, version, symbol, parameters)                                                        \
  if (need == Need::group && !name) return false;
#include "drivers/cuda/functions.inc"
#undef CUDA_FUNCTION
  return true;
}

tb_status Api::find(const tb_host *host, void *library) {
  const Finder finder(library);
#define CUDA_FUNCTION(need, name, version, symbol, parameters) finder.find(name, #name, version, #symbol);
#include "drivers/cuda/functions.inc"
#undef CUDA_FUNCTION
  const CUresult asked = cuDriverGetVersion ? cuDriverGetVersion(&version) : CUDA_SUCCESS;
  if (asked == CUDA_SUCCESS && cuDriverGetVersion && version < oldest)
    return fail(host, TB_UNAVAILABLE, "%s is CUDA %d.%d, and %d.%d is the oldest that works. Upgrade NVIDIA's driver",
                path.c_str(), version / 1000, version % 1000 / 10, oldest / 1000, oldest % 1000 / 10);
  std::string missing;
  int count = 0;
#define CUDA_FUNCTION(need, name, version, symbol, parameters)                                                         \
  if (Need::need == Need::CORE && !name && ++count <= 4) missing += missing.empty() ? #name : ", " #name;
#include "drivers/cuda/functions.inc"
#undef CUDA_FUNCTION
  if (count == 0 && asked != CUDA_SUCCESS)
    return fail_cuda(host, *this, TB_UNAVAILABLE, asked, "cuDriverGetVersion", remedy);
  if (count == 0) return TB_OK;
  return fail(host, TB_UNAVAILABLE, "%s is no whole CUDA driver library: it lacks %s%s. %s", path.c_str(),
              missing.c_str(), count > 4 ? (" and " + std::to_string(count - 4) + " more").c_str() : "", remedy);
}

tb_status Api::open(const tb_host *host) {
  const char *asked = host->option ? host->option("library") : nullptr;
  path = asked && *asked ? asked : "libcuda.so.1";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); // never unloaded
  if (!library) {
    const char *reason = dlerror();
    return fail(host, TB_UNAVAILABLE, "there is no CUDA driver library: %s. %s", reason ? reason : path.c_str(),
                remedy);
  }
  if (const tb_status status = find(host, library)) return status;
  const CUresult started = cuInit(0);
  if (started == CUDA_ERROR_NO_DEVICE) return TB_OK;
  const CUresult counted = started == CUDA_SUCCESS ? cuDeviceGetCount(&devices) : started;
  if (counted == CUDA_SUCCESS) return TB_OK;
  const char *const what = started == CUDA_SUCCESS ? "cuDeviceGetCount" : "cuInit";
  fail_cuda(host, *this, TB_UNAVAILABLE, counted, what,
            counted == CUDA_ERROR_STUB_LIBRARY
                ? "It is the toolkit's stub for linking: take the toolkit's folder of stubs off the library path"
                : "CUDA does not start here: nvidia-smi says more, and a restart helps after an upgrade of the driver");
  return TB_UNAVAILABLE;
}

} // namespace tb::drivers::cuda
