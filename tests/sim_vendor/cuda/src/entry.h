// entry.h -- what every function of the API does first: it counts the call, injects faults and refuses callbacks.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>

#include "cuda_api.h"

namespace simcuda {

using namespace tb::drivers::cuda;

// The driver's own prototypes. A definition that differs from them does not compile.
extern "C" {
#define CUDA_FUNCTION(need, name, version, symbol, parameters) CUresult symbol parameters;
#include "functions.inc"
#undef CUDA_FUNCTION
}

struct Function {
  explicit Function(const char *name);
  const char *const name;
  const bool takes_back; // the function releases something, and does so even if a fault makes it fail
  std::atomic<uint64_t> calls{0};
};

// The error with which this call must fail, or CUDA_SUCCESS: an injected fault, a call before cuInit or from a
// callback.
CUresult enter(Function &function);
bool initialised();
void initialise();
extern thread_local bool in_callback;

template <size_t N> struct Name {
  char text[N];
  constexpr Name(const char (&from)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = from[i];
  }
};

template <Name name, class Body> CUresult call(Body &&body) noexcept {
  static Function &function = *new Function(name.text); // never destroyed: workers may run while the process ends
  const CUresult fault = enter(function);
  if (fault != CUDA_SUCCESS && !function.takes_back) return fault;
  const CUresult result = body();
  return fault != CUDA_SUCCESS ? fault : result;
}

} // namespace simcuda
