/* tb/operator_backend.h -- a set of operators for tb devices, from a package beside tb-ops.
 *
 * For operator libraries that need PyTorch's headers; kernels in plain C are simpler by tb/kernels.h. The table is in a
 * capsule named TB_OPERATOR_BACKEND_CAPSULE. An entry point of the group "tb.operator_backends" names a function that
 * returns the capsule. tb-ops' own sets for CUDA and Ascend have tables of this type too.
 *
 * The sets register in one order, which tb_ops.backends() shows. Where two register a kernel for an operator, the later
 * one's runs: that is PyTorch's rule, without its warning. Kernels by tb/kernels.h come last, in front of all.
 *
 * A set cannot replace the default kernel, which runs operators that no set has: the counted CPU fallback, or what
 * tb-ops' set for CUDA puts in its place. It registers each operator that it computes.
 */
#ifndef TB_OPERATOR_BACKEND_H
#define TB_OPERATOR_BACKEND_H

#include "tb/driver.h"

#define TB_OPERATOR_BACKEND_CAPSULE "tb.operator_backend.v1"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a set registers its kernels. Valid until `install` returns, its functions for the life of the process. */
typedef struct tb_operator_libraries {
  uint32_t struct_size;
  uint32_t reserved;
  void *aten;     /* torch::Library *: "aten" for PrivateUse1 */
  void *autograd; /* torch::Library *: "aten" for AutogradPrivateUse1 */
  /* 1 if no set has registered a kernel of the device for the operator ("aten::gelu.out") yet. */
  int32_t (*is_free)(const char *operation);
  /* Sets the kernel that copies between tensors of any strides and dtypes on one device: copy(from, to), each an
   * at::Tensor *. It queues the copy on the current stream and returns 1, or copies nothing and returns 0; then the
   * copy takes a slower way. The last one that is set is used. */
  void (*set_element_copy)(int32_t (*copy)(const void *from, const void *to));
} tb_operator_libraries;

/* Static, for the life of the process. The functions may throw PyTorch's exceptions. */
typedef struct tb_operator_backend {
  uint32_t struct_size;
  int32_t torch_major, torch_minor; /* of the PyTorch with which the package was built */
  uint32_t reserved;
  const char *name;        /* "mychip"; no other set has it */
  const char *description; /* for users: what its operators are */
  const char *rule;        /* for users: which drivers it serves */
  /* The set before which it registers: one of tb-ops' (tb_ops.backends()), or of an entry point with an earlier name.
   * Several with one place keep the order of their entry points' names. NULL: behind all but tb/kernels.h's, so that
   * its kernels replace those of tb-ops. */
  const char *before;
  /* Whether it serves the open driver. Called before anything is registered; again if the device could not be
   * initialised, and is asked for once more. */
  int32_t (*serves)(const tb_driver_api *driver, tb_driver *self);
  /* Registers the kernels. Called once, for a driver that it serves. */
  void (*install)(const tb_operator_libraries *libraries);
} tb_operator_backend;

#ifdef __cplusplus
}
#endif
#endif
