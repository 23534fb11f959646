// libcuda.h -- calls of the simulated libcuda, for what simulates PyTorch's parts over it.
#pragma once
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstdlib>

using Address = unsigned long long;

// Calls a function of libcuda. Throws if it fails.
template <class... Arguments> void cuda(const char *name, Arguments... arguments) {
  static void *const library = dlopen(std::getenv("TB_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(library, "simulated CUDA backend: ", dlerror());
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  TORCH_CHECK(function, "simulated CUDA backend: libcuda has no ", name);
  const int result = function(arguments...);
  TORCH_CHECK(result == 0, "simulated CUDA backend: ", name, " gave ", result);
}
