// sim_kernel.h -- CUDA C++ for the host. compile_image.py puts this before a source, so that its kernels run on the
// simulated libcuda.
//
// The threads of a block are fibers on one thread of the host. A fiber runs until it ends or reaches a barrier, then
// the next one runs. A kernel without barriers runs on one fiber. Blocks run one after another, in an order that a
// kernel must not rely on. Supported are built-in variables, __shared__ (also dynamic), __syncthreads, __syncwarp,
// shuffles of whole warps, atomics, and the functions of <cmath>.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "sim_kernel_abi.h"

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace simcuda_kernel {

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[256 << 10]};
};

// The state of a running block.
struct Block {
  const tb_simcuda_launch *launch = nullptr;
  unsigned threads = 0, started = 0, ended = 0;
  unsigned current = 0; // the number of the current thread
  unsigned place = 0;   // the number of the current fiber
  void (*call)(void *const *) = nullptr;
  ucontext_t scheduler;
  std::vector<Fiber> fibers;
  std::vector<unsigned> thread_of; // fiber -> thread
  std::vector<unsigned> waits;     // by thread: the number of barriers that it has reached
  std::vector<uint64_t> exchanged; // by thread: the value that it gives to shuffles
  std::vector<char> shared;
};

inline thread_local Block block;
inline thread_local uint3 thread_index, block_index;
inline thread_local dim3 block_size, grid_size;

inline void enter_thread(unsigned thread) {
  block.current = thread;
  thread_index = {thread % block_size.x, thread / block_size.x % block_size.y, thread / (block_size.x * block_size.y)};
}

// The function of a fiber: it runs threads one after another. If one waits at a barrier, another fiber runs the rest.
inline void run_fiber() {
  const unsigned place = block.place;
  while (block.started < block.threads) {
    const unsigned thread = block.started++;
    block.thread_of[place] = thread;
    enter_thread(thread);
    block.call(block.launch->arguments);
    ++block.ended;
    block.waits[thread] = ~0u; // an ended thread holds up no barrier
  }
  block.thread_of[place] = ~0u;
}

inline void resume(unsigned place) {
  block.place = place;
  if (block.thread_of[place] != ~0u) enter_thread(block.thread_of[place]);
  swapcontext(&block.scheduler, &block.fibers[place].context);
}

// Waits until all threads from `first` to before `last` have reached as many barriers as this one.
inline void barrier(unsigned first, unsigned last) {
  const unsigned mine = block.current, goal = ++block.waits[mine], place = block.place;
  const auto together = [&] {
    for (unsigned thread = first; thread < last; ++thread)
      if (block.waits[thread] < goal) return false;
    return true;
  };
  while (!together()) swapcontext(&block.fibers[place].context, &block.scheduler);
  block.place = place;
  enter_thread(mine);
}

inline void run_block(const tb_simcuda_launch &launch, void (*call)(void *const *)) {
  block.launch = &launch;
  block.call = call;
  block.threads = launch.block[0] * launch.block[1] * launch.block[2];
  block.started = block.ended = 0;
  block.waits.assign(block.threads, 0);
  block.exchanged.assign(block.threads, 0);
  block.shared.assign(launch.dynamic_shared + 64, char(0xCD));
  block.thread_of.clear();
  unsigned live = 0;
  while (block.ended < block.threads) {
    if (block.started < block.threads) { // all fibers so far wait at a barrier, so the rest needs another one
      if (live == block.fibers.size()) block.fibers.emplace_back();
      Fiber &fiber = block.fibers[live];
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = 256 << 10;
      fiber.context.uc_link = &block.scheduler;
      makecontext(&fiber.context, run_fiber, 0);
      block.thread_of.push_back(~0u);
      resume(live++);
      continue;
    }
    for (unsigned place = 0; place < live; ++place)
      if (block.thread_of[place] != ~0u) resume(place);
  }
}

inline void run_grid(const tb_simcuda_launch *launch, void (*call)(void *const *)) {
  block_size = {launch->block[0], launch->block[1], launch->block[2]};
  grid_size = {launch->grid[0], launch->grid[1], launch->grid[2]};
  block.fibers.reserve(block_size.x * block_size.y * block_size.z + 1); // contexts must not move
  for (unsigned z = 0; z < grid_size.z; ++z)
    for (unsigned y = 0; y < grid_size.y; ++y)
      for (unsigned x = 0; x < grid_size.x; ++x) {
        block_index = {x, y, z};
        run_block(*launch, call);
      }
}

inline void *dynamic_shared() {
  const auto address = reinterpret_cast<uintptr_t>(block.shared.data());
  return block.shared.data() + (64 - address % 64) % 64;
}

template <auto kernel> struct Kernel;
template <class... Values, void (*kernel)(Values...)> struct Kernel<kernel> {
  static constexpr uint64_t sizes[sizeof...(Values) + 1] = {sizeof(Values)..., 0};
  static void call(void *const *arguments) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      kernel(*static_cast<std::remove_reference_t<Values> *>(arguments[I])...);
    }(std::index_sequence_for<Values...>());
  }
  static void run(const tb_simcuda_launch *launch) { run_grid(launch, call); }
  static constexpr tb_simcuda_kernel description = {TB_SIMCUDA_KERNEL_MAGIC, sizeof...(Values), 1024, sizes, run};
};

template <class Value> Value exchange(Value value, unsigned from) {
  static_assert(sizeof value <= 8);
  const unsigned mine = block.current, first = mine / 32 * 32;
  const unsigned last = first + 32 < block.threads ? first + 32 : block.threads;
  std::memcpy(&block.exchanged[mine], &value, sizeof value);
  barrier(first, last);
  const unsigned source = first + from < last ? first + from : mine;
  Value got;
  std::memcpy(&got, &block.exchanged[source], sizeof got);
  barrier(first, last);
  return got;
}

} // namespace simcuda_kernel

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __shared__ static thread_local
#define __constant__ const
#define __launch_bounds__(...)
#define threadIdx ::simcuda_kernel::thread_index
#define blockIdx ::simcuda_kernel::block_index
#define blockDim ::simcuda_kernel::block_size
#define gridDim ::simcuda_kernel::grid_size
constexpr int warpSize = 32;

inline void __syncthreads() { simcuda_kernel::barrier(0, simcuda_kernel::block.threads); }
inline void __syncwarp(unsigned = ~0u) {
  const unsigned first = simcuda_kernel::block.current / 32 * 32, all = simcuda_kernel::block.threads;
  simcuda_kernel::barrier(first, first + 32 < all ? first + 32 : all);
}
template <class Value> Value __shfl_sync(unsigned, Value value, int lane, int = 32) {
  return simcuda_kernel::exchange(value, static_cast<unsigned>(lane));
}
template <class Value> Value __shfl_xor_sync(unsigned, Value value, int mask, int = 32) {
  return simcuda_kernel::exchange(value, (simcuda_kernel::block.current % 32) ^ static_cast<unsigned>(mask));
}
template <class Value> Value __shfl_down_sync(unsigned, Value value, unsigned by, int = 32) {
  const unsigned lane = simcuda_kernel::block.current % 32;
  return simcuda_kernel::exchange(value, lane + by < 32 ? lane + by : lane);
}

// Blocks run one after another, but two streams' kernels may run at once.
template <class Value> Value atomicAdd(Value *address, Value value) {
  Value before, after;
  __atomic_load(address, &before, __ATOMIC_RELAXED);
  do after = before + value;
  while (!__atomic_compare_exchange(address, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return before;
}
template <class Value> Value atomicMax(Value *address, Value value) {
  Value before, after;
  __atomic_load(address, &before, __ATOMIC_RELAXED);
  do after = before < value ? value : before;
  while (!__atomic_compare_exchange(address, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return before;
}
inline float rsqrtf(float value) { return 1 / std::sqrt(value); }
