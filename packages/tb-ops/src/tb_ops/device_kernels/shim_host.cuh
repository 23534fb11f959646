// The shim for the host's C++ compiler. An image is a shared object with the entries of tb/host_kernel.h.
//
// The threads of a block of a synchronizing kernel run as fibers. Each has a stack of its own and yields at
// __syncthreads(), so that no thread passes it before all have reached it. Threads of other kernels run one after the
// other, in descending order, which reveals a kernel that relies on the order. No C++ header is included, since it
// would take most of the compilation time.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "tb/host_kernel.h"

#define __device__
#define __shared__ static thread_local // a block runs on one thread of the host

struct tb_index {
  unsigned x, y, z;
};
static thread_local tb_index threadIdx, blockIdx, blockDim, gridDim;

namespace tb::kernels::host {

constexpr unsigned stack_bytes = 64 << 10; // kernels need little stack

struct Fiber {
  ucontext_t context;
  unsigned thread;
  bool done;
};

// The block that this thread of the host runs.
struct Block {
  ucontext_t scheduler;
  Fiber *running;
  void (*body)(const void *arguments);
  const void *arguments;
  const char *failure;
  int refused; // the tb_status of the failure
};
static thread_local Block block;

inline void run_fiber() {
  block.body(block.arguments);
  block.running->done = true;
  swapcontext(&block.running->context, &block.scheduler);
}

inline void place_thread(unsigned number) {
  threadIdx.x = number % blockDim.x;
  threadIdx.y = number / blockDim.x % blockDim.y;
  threadIdx.z = number / blockDim.x / blockDim.y;
}

// Runs every fiber to its next barrier, in rounds, until all have ended. Returns false if some fibers end while others
// wait at a barrier.
inline bool run_fibers(Fiber *fibers, char *stacks, unsigned threads) {
  for (unsigned i = 0; i < threads; i++) {
    getcontext(&fibers[i].context);
    fibers[i].context.uc_stack.ss_sp = stacks + i * stack_bytes;
    fibers[i].context.uc_stack.ss_size = stack_bytes;
    fibers[i].context.uc_link = nullptr;
    fibers[i].done = false;
    makecontext(&fibers[i].context, run_fiber, 0);
  }
  for (;;) {
    unsigned ended = 0;
    for (unsigned i = threads; i-- > 0;) {
      place_thread(i);
      block.running = &fibers[i];
      swapcontext(&block.scheduler, &fibers[i].context);
      ended += fibers[i].done ? 1 : 0;
    }
    if (ended == threads) return true;
    if (ended > 0) return false;
  }
}

inline tb_status fail(const tb_host_kernel_call *call, tb_status status, const char *text) {
  snprintf(call->error_text, call->error_capacity, "%s", text);
  return status;
}

inline tb_status run(const tb_host_kernel_call *call, void (*body)(const void *arguments), bool synchronizing) {
  gridDim = {call->grid[0], call->grid[1], call->grid[2]};
  blockDim = {call->block[0], call->block[1], call->block[2]};
  blockIdx = {call->index[0], call->index[1], call->index[2]};
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  block.failure = nullptr;
  block.body = body;
  block.arguments = call->args[0];
  if (!synchronizing || threads == 1) {
    block.running = nullptr;
    for (unsigned i = threads; i-- > 0;) {
      place_thread(i);
      body(call->args[0]);
    }
  } else {
    Fiber *fibers = static_cast<Fiber *>(malloc(threads * sizeof(Fiber)));
    char *stacks = static_cast<char *>(malloc(size_t{threads} * stack_bytes));
    const bool together = fibers && stacks && run_fibers(fibers, stacks, threads);
    const bool memory = fibers && stacks;
    free(fibers);
    free(stacks);
    if (!memory) return fail(call, TB_OUT_OF_MEMORY, "no host memory for the stacks of a block's threads");
    if (!together && !block.failure)
      return fail(call, TB_INTERNAL, "some threads of a block ended while others waited at __syncthreads()");
  }
  return block.failure ? fail(call, block.refused, block.failure) : TB_OK;
}

} // namespace tb::kernels::host

inline void __syncthreads() {
  using namespace tb::kernels::host;
  if (block.running) {
    Fiber *me = block.running;
    swapcontext(&me->context, &block.scheduler);
  }
}

// A block has few threads, since the host runs them one by one.
#define TB_ENTRY(name, body, Arguments, threads, synchronizing)                                                        \
  TB_HOST_EXPORT const tb_host_kernel_info name##_info = {sizeof(tb_host_kernel_info), synchronizing ? 4 : 32, 0, 0};  \
  TB_HOST_KERNEL(name) {                                                                                               \
    return tb::kernels::host::run(                                                                                     \
        call, [](const void *arguments) { body(*static_cast<const Arguments *>(arguments)); }, synchronizing);         \
  }

namespace tb::kernels {

// If `good` is false, the launch fails with the text once the block has ended. The thread continues, so it must not use
// the value that was checked.
inline void require(bool good, const char *text, Refused status = index_out_of_range) {
  if (good) return;
  host::block.failure = text;
  host::block.refused = status;
}

// Atomic, because blocks of launches on several streams run at the same time. Those of one launch run one after the
// other.
template <class Number> inline void atomic_add(Number *place, Number value) {
  Number seen, next;
  __atomic_load(place, &seen, __ATOMIC_RELAXED);
  do next = seen + value;
  while (!__atomic_compare_exchange(place, &seen, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

inline unsigned bits_of(float value) { return __builtin_bit_cast(unsigned, value); }
inline float float_of(unsigned bits) { return __builtin_bit_cast(float, bits); }
#if !defined(TB_NO_FLOAT64)
inline Unsigned bits_of(double value) { return __builtin_bit_cast(Unsigned, value); }
inline double double_of(Unsigned bits) { return __builtin_bit_cast(double, bits); }
#endif
inline Unsigned high_product(Unsigned a, Unsigned b) {
  return static_cast<Unsigned>(static_cast<unsigned __int128>(a) * b >> 64);
}

} // namespace tb::kernels

// Names the C library's function.
#define TB_C_FUNCTION(name) __builtin_##name

#define TB_VECTOR(Number, lanes) Number __attribute__((vector_size(lanes * sizeof(Number))))

constexpr bool tb_fast_fma = false;
constexpr int tb_matmul_side = 32, tb_matmul_piece = 16; // see matmul.cuh
