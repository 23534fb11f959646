/* tb/image_kernel.h -- the parameters of a kernel in an image of module_load that tb-ops launches for an operator.
 *
 * They are the operator's arguments in the schema's order, then its outputs, each by value:
 *
 *   Tensor, Tensor?              a tb_image_tensor; an absent one has no data
 *   int, SymInt, bool, dtype     int64_t (a dtype is its TB_DTYPE_* of tb/kernels.h)
 *   float, Scalar                double
 *
 * There is a thread for each element of the last tensor, in blocks along x; the last block may have threads without an
 * element. The header needs no other one of ours, so that a device's compiler can read it.
 */
#ifndef TB_IMAGE_KERNEL_H
#define TB_IMAGE_KERNEL_H

#include <stdint.h>

#define TB_IMAGE_TENSOR_DIMS 8

/* A tensor, row-major without gaps. */
typedef struct tb_image_tensor {
  void *data; /* NULL: no tensor */
  int64_t elements;
  int32_t dtype; /* TB_DTYPE_* */
  int32_t dims;
  int64_t sizes[TB_IMAGE_TENSOR_DIMS];
} tb_image_tensor;

#endif
