// Ends the OpenMP threads that kernels have left to the calling thread.
#pragma once

#include <dlfcn.h>

namespace tb::drivers::cpu {

// For a thread that has been idle, if the process has OpenMP. GCC's runtime counts the OpenMP threads of the whole
// process, and once they outnumber the processors it lets all of them sleep between two loops, which makes a kernel of
// many short loops up to five times slower. The thread's next parallel loop starts its threads again in about 0.1 ms.
inline void pause_openmp() noexcept {
  constexpr int soft = 1; // omp_pause_soft
  using Pause = int (*)(int);
  if (const auto pause = reinterpret_cast<Pause>(dlsym(RTLD_DEFAULT, "omp_pause_resource_all"))) pause(soft);
}

} // namespace tb::drivers::cpu
