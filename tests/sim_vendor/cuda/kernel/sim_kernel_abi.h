/* sim_kernel_abi.h -- the description that an image of the simulated libcuda exports for each kernel.
 *
 * An image is a shared object for the host, made from CUDA C++ by compile_image.py. Its exported variables are the
 * image's globals. */
#ifndef TB_SIM_KERNEL_ABI_H
#define TB_SIM_KERNEL_ABI_H

#include <stddef.h>
#include <stdint.h>

#define TB_SIMCUDA_KERNEL_MAGIC 0x4b414455434d4953ull /* "SIMCUDAK" */

typedef struct tb_simcuda_launch {
  uint32_t grid[3], block[3];
  uint64_t dynamic_shared;
  void *const *arguments; /* a pointer to each argument's value */
} tb_simcuda_launch;

typedef struct tb_simcuda_kernel {
  uint64_t magic;
  uint32_t argument_count;
  uint32_t max_threads; /* in a block */
  const uint64_t *argument_sizes;
  void (*run)(const tb_simcuda_launch *launch);
} tb_simcuda_kernel;

#endif
