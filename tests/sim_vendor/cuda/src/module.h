// module.h -- loaded images and their kernels.
#pragma once

#include <map>
#include <string>

#include "kernel/sim_kernel_abi.h"
#include "world.h"

namespace simcuda {

struct Module {
  ~Module();
  Context *context = nullptr;
  int file = -1;           // open as long as the library, because the loader knows the library by this file's name
  void *library = nullptr; // from dlopen; queued launches keep it open
  std::map<std::string, Kernel *> kernels;
};

struct Kernel {
  Context *context = nullptr;
  std::weak_ptr<Module> module;
  const tb_simcuda_kernel *description = nullptr;
  int dynamic_shared = 48 << 10;
};

} // namespace simcuda
