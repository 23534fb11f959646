// Libcuda, opened at run time, and which of its functions are there.
#pragma once

#include <string>

#include "drivers/cuda/cuda_api.h"
#include "tb/driver.h"

namespace tb::drivers::cuda {

enum class Need {
  CORE,
  OPTIONAL,
  ASYNC,
  PIN,
  PTR,
  SOA,
  COPY2D,
  VMM,
  PEER,
  HOSTCALL,
  NATIVE,
  TIMING,
  MODULE,
  IPC,
  GRAPH
};

struct Api {
#define CUDA_FUNCTION(need, name, version, symbol, parameters) CUresult(*name) parameters = nullptr;
#include "drivers/cuda/functions.inc"
#undef CUDA_FUNCTION

  // Opens the library, finds the functions and initialises it. No device is a success with `devices` 0. Otherwise
  // TB_UNAVAILABLE with one sentence of what is wrong and one of what to do.
  tb_status open(const tb_host *host);
  bool has(Need need) const; // all functions of it
  int version = 0;           // 12080 is 12.8
  int devices = 0;
  std::string path;

private:
  tb_status find(const tb_host *host, void *library);
};

} // namespace tb::drivers::cuda
