// The team of OpenMP threads that kernels have left the calling thread.
#pragma once

#include <dlfcn.h>

namespace tb::drivers::cpu {

// Ends the threads of the calling thread's team, if the process has OpenMP and this thread a team. Its next parallel
// loop starts them anew, which takes some 0.1 ms. For a thread that has been idle: GCC's runtime counts the threads of
// all teams, and once they outnumber the processors it lets every team of the process sleep between two loops. What is
// made of many short loops then takes up to five times as long.
inline void release_team() noexcept {
  constexpr int soft = 1; // omp_pause_soft
  using Pause = int (*)(int);
  if (const auto pause = reinterpret_cast<Pause>(dlsym(RTLD_DEFAULT, "omp_pause_resource_all"))) pause(soft);
}

} // namespace tb::drivers::cpu
