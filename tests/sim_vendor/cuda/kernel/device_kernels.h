// device_kernels.h -- tb-ops' device kernels as images of the simulated libcuda: its shim for the host, with the
// entries that the simulation needs.
//
// TB_KERNEL_SHIM names this file where tb-ops compiles for the simulation (tests/sim_vendor/simulated.py).
#pragma once
#include "shim_host.cuh"

#include "sim_kernel_abi.h"

namespace simcuda_kernel {

// Runs all blocks of a grid one after another. A trap, which would end the context on a GPU, ends the process.
inline void run_grid(const tb_simcuda_launch *launch, tb_host_kernel run_block) {
  char text[256] = "";
  tb_host_kernel_call call = {};
  call.struct_size = sizeof call;
  call.arg_count = 1;
  for (int i = 0; i < 3; ++i) call.grid[i] = launch->grid[i], call.block[i] = launch->block[i];
  call.error_text = text;
  call.error_capacity = sizeof text;
  call.args = launch->arguments;
  unsigned(&index)[3] = call.index;
  for (index[2] = 0; index[2] < call.grid[2]; ++index[2])
    for (index[1] = 0; index[1] < call.grid[1]; ++index[1])
      for (index[0] = 0; index[0] < call.grid[0]; ++index[0])
        if (run_block(&call) != TB_OK) {
          fprintf(stderr, "simulated libcuda: a kernel trapped: %s\n", text);
          abort();
        }
}

} // namespace simcuda_kernel

#undef TB_ENTRY
#define TB_ENTRY(name, body, Arguments, threads, synchronizing)                                                        \
  static tb_status name##_block(const tb_host_kernel_call *call) {                                                     \
    return tb::kernels::host::run(                                                                                     \
        call, [](const void *arguments) { body(*static_cast<const Arguments *>(arguments)); }, synchronizing);         \
  }                                                                                                                    \
  static const uint64_t name##_sizes[] = {sizeof(Arguments)};                                                          \
  TB_HOST_EXPORT const tb_simcuda_kernel simcuda_kernel_##name = {                                                     \
      TB_SIMCUDA_KERNEL_MAGIC, 1, synchronizing ? 4 : 32, name##_sizes,                                                \
      [](const tb_simcuda_launch *launch) { simcuda_kernel::run_grid(launch, name##_block); }};
