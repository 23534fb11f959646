// mychip.cuh -- the language of kernels for mychip: what its compiler has built in. It is CUDA's dialect of C++.
//
//   __global__ void scale(float *x, float by, int count) {
//     const int i = blockIdx.x * blockDim.x + threadIdx.x;
//     if (i < count) x[i] *= by;
//   }
//   KERNEL(scale, 256, false) // the most threads of a block; whether it calls __syncthreads()
#pragma once
#include "entry.h"

#define __device__
#define __global__ static
#define __shared__ thread_local // in functions; a block runs on one thread of the chip

static thread_local const mychip_lane *mychip_this_lane;
#define threadIdx (mychip_this_lane->index)
#define blockIdx (mychip_this_lane->block->index)
#define blockDim (mychip_this_lane->block->size)
#define gridDim (mychip_this_lane->block->grid)

inline void __syncthreads() {
  const mychip_lane *me = mychip_this_lane;
  me->barrier(); // other threads of the block run meanwhile
  mychip_this_lane = me;
}

// Defines an array that kernels declare by `extern __shared__`: the shared memory of the launch, of which each has 16 KiB.
#define LAUNCH_SHARED(Type, name) extern "C" { thread_local Type name[16384 / sizeof(Type)]; }

// Fails the launch with a status of tb/driver.h. The thread goes on.
inline void fail(int status, const char *text) {
  mychip_block *block = mychip_this_lane->block;
  if (block->status == 0) block->status = status, block->failure = text;
}

// Blocks of launches on several streams run at the same time.
template <class Number> inline Number atomicAdd(Number *place, Number value) {
  Number seen, next;
  __atomic_load(place, &seen, __ATOMIC_RELAXED);
  do next = seen + value;
  while (!__atomic_compare_exchange(place, &seen, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return seen;
}

// Calls a kernel with the arguments of a launch, each of which is behind a pointer. Braces keep their order.
struct mychip_call {
  template <class... Types> mychip_call(void (*kernel)(Types...), Types... values) { kernel(values...); }
};
template <class... Types> inline void mychip_run(void (*kernel)(Types...), const void *const *arguments) {
  mychip_call{kernel, *static_cast<const Types *>(*arguments++)...};
}

// Exports a kernel, under another name if it has one.
#define KERNEL(name, threads, barriers) KERNEL_NAMED(name, name, threads, barriers)
#define KERNEL_NAMED(name, kernel, threads, barriers)                                                                  \
  static void mychip_run_##name(const mychip_lane *lane, const void *const *arguments) {                               \
    mychip_this_lane = lane;                                                                                           \
    mychip_run(kernel, arguments);                                                                                     \
  }                                                                                                                    \
  extern "C" __attribute__((visibility("default"))) const mychip_entry mychip_entry_##name = {threads, barriers,       \
                                                                                              mychip_run_##name};
