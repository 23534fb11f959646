/* tb/host_kernel.h -- kernels for devices that run on the host: what an image of module_load holds there.
 *
 * An image is a shared object for the machine, built from C or C++ (cc -shared -fPIC): the cpu driver's, and of any
 * driver whose documentation says so. Its exported functions are the kernels, its exported variables the globals.
 *
 *   TB_HOST_KERNEL(my_fill) {
 *     uint32_t *dst, value;
 *     memcpy(&dst, call->args[0], sizeof dst);
 *     memcpy(&value, call->args[1], sizeof value);
 *     for (uint32_t thread = 0; thread < call->block[0]; ++thread) dst[call->index[0] * call->block[0] + thread] = value;
 *     return TB_OK;
 *   }
 *
 * A kernel is called once for each block of a launch, in no order that may be relied on, on threads of the driver. It
 * must not call the driver. Instead of throwing it returns a status, with a text in error_text; the launch then fails
 * with both, and blocks that have not begun are left out. A check that fails, such as an index out of range, is
 * TB_OUT_OF_RANGE (launch.9); the threads of its block may go on, so none may use the value that was checked.
 */
#ifndef TB_HOST_KERNEL_H
#define TB_HOST_KERNEL_H

#include "tb/driver.h"

#define TB_HOST_KERNEL_ALIGNMENT 64     /* of `shared` */
#define TB_HOST_KERNEL_MAX_THREADS 1024 /* of a block, for kernels without a tb_host_kernel_info */

#ifdef __cplusplus
extern "C" {
#endif

/* One block of a launch. Valid during the call. */
typedef struct tb_host_kernel_call {
  uint32_t struct_size;
  uint32_t arg_count;
  uint32_t grid[3];  /* blocks of the launch */
  uint32_t block[3]; /* threads of a block; the kernel loops over them */
  uint32_t index[3]; /* of this block */
  uint32_t error_capacity;
  char *error_text;
  void *shared; /* the info's shared_size and then the launch's; not cleared, also not from block to block */
  uint64_t shared_size;
  const void *const *args; /* a pointer to each argument's value, aligned to 16 */
  const uint64_t *arg_sizes;
} tb_host_kernel_call;

typedef tb_status (*tb_host_kernel)(const tb_host_kernel_call *call);

/* Optional: an exported variable "<kernel>_info" for function_get_info. 0 leaves a field to the driver. */
typedef struct tb_host_kernel_info {
  uint32_t struct_size;
  uint32_t max_threads; /* of a block */
  uint32_t shared_size; /* shared memory that the kernel needs besides the launch's */
  uint32_t reserved;
} tb_host_kernel_info;

#ifdef __cplusplus
}
#define TB_HOST_EXPORT extern "C" TB_EXPORT
#else
#define TB_HOST_EXPORT TB_EXPORT
#endif

#define TB_HOST_KERNEL(name) TB_HOST_EXPORT tb_status name(const tb_host_kernel_call *call)

#endif
