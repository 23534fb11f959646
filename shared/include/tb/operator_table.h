/* tb/operator_table.h -- tb-ops' function table, through which others launch operators and compiled code. C API 1.2.
 *
 * tb/component.h says how it is imported. tb/operator.h is its C++ side, for generated and hand-written operators.
 */
#ifndef TB_OPERATOR_TABLE_H
#define TB_OPERATOR_TABLE_H

#include "tb/component.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TB_OPS_API_MAJOR 1
#define TB_OPS_API_MINOR 2

/* The launch returns when the call has run, and raises what it failed with. */
#define TB_LAUNCH_WAIT 1u

/* An operator of another library, one static each. */
typedef struct tb_operator {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name; /* "library::operator", for error texts */
  /* Runs once, on the stream's worker. tensors[i] is an at::Tensor * to a CPU tensor over the bytes of the i-th tensor
   * of the call, valid until run returns. May throw; must not take the GIL, launch or wait. */
  void (*run)(void *state, void *const *tensors);
  void (*destroy)(void *state); /* once for each call, also for one that was never run */
  void *kind;                   /* used by tb-ops; NULL at first */
} tb_operator;

/* A kernel that was compiled for the host's memory, one for the life of the process: it takes addresses and numbers. */
typedef struct tb_code {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name; /* for error texts */
  /* Runs on the stream's worker. arguments[i] are the 8 bytes of the call's i-th argument. May throw a std::exception
   * and use OpenMP; must not take the GIL, launch or wait. */
  void (*run)(void **arguments);
  void *kind; /* used by tb-ops; NULL at first */
} tb_code;

/* The most arguments of 8 bytes that a kernel in source has: no device of tb-ops' kernels takes less than 1,000 bytes. */
#define TB_GENERATED_KERNEL_ARGUMENTS 125

/* A generated kernel in source, in the language of tb-ops' device kernels, one for the life of the process. It has one argument,
 * a struct of pointers to memory of the device, followed by numbers of 8 bytes. */
typedef struct tb_generated_kernel {
  uint32_t struct_size;
  uint32_t threads;       /* the most that a block has */
  uint32_t synchronizing; /* 1: it calls __syncthreads(), and a block computes an item; 0: a thread computes an item */
  uint32_t pointers;      /* how many the struct has */
  const char *name;       /* of the function in namespace tb::kernels, and for error texts */
  const char *arguments;  /* the struct's name there */
  const char *text;       /* defines both, and includes the headers of tb-ops' device kernels that it needs */
  void *loaded;           /* used by tb-ops; NULL at first */
} tb_generated_kernel;

/* Tensors are at::Tensor behind void *: both sides must be built for the same minor version of PyTorch. Functions throw
 * PyTorch's exceptions. tb/operator.h of tb-ops is the C++ side of this table. */
typedef struct tb_ops_table {
  uint32_t struct_size;
  int32_t torch_major, torch_minor; /* what tb-ops was built for */
  /* `function` registers kernels for the device. It is called once, when a driver that runs such kernels is opened, or
   * at once if one is open. It is never called on other drivers, whose operators run on the CPU as fallbacks. */
  void (*on_native)(void (*function)(void));
  /* Queues one call on the current stream of a device and returns. It owns `state` from then on, also if it throws. The
   * call does not hold references to tensors: their memory is reused in stream order. CPU tensors are copied. flags:
   * TB_LAUNCH_WAIT. */
  void (*launch)(tb_operator *op, int32_t device, const void *const *tensors, uint64_t count, uint32_t flags,
                 void *state);
  /* ---- since 1.1 ---- */
  /* Queues one call of `code` with `count` arguments, which are copied, on the current stream of a device. The number
   * of its intra-op threads is chosen as for kernels of tb-ops, by the time measured for this number of `elements`, the
   * sum over its tensors. */
  void (*launch_code)(tb_code *code, int32_t device, void *const *arguments, uint64_t count, int64_t elements);
  /* ---- since 1.2 ---- */
  /* Compiles a kernel for a device, or finds its image in the cache, and loads it. Later calls return at once. An
   * exception has the kernel's name and the compiler's messages. */
  void (*load_generated)(tb_generated_kernel *kernel, int32_t device);
  /* Queues one call with `count` arguments of 8 bytes, the pointers first, on the current stream of a device, and loads
   * the kernel if that has not been done. The call has an item for each block or thread: the kernel takes the next ones
   * if there are more items than threads. Nothing is queued for 0 items. */
  void (*launch_generated)(tb_generated_kernel *kernel, int32_t device, int64_t items, const uint64_t *arguments,
                           uint64_t count);
} tb_ops_table;

#ifdef __cplusplus
}
#endif
#endif
