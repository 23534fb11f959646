// Combines results of all threads of a one-dimensional block.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

// Combines the values of the block's threads by merge(into, from), in a fixed order, and returns the result to every
// thread. All threads must call it. Value is stored in shared memory, so it must be plain data with a constructor that
// does nothing.
template <class Value, class Merge> __device__ inline Value across_block(Value mine, const Merge &merge) {
  __shared__ Value values[256];
  __syncthreads(); // threads may still read the values of an earlier call
  values[threadIdx.x] = mine;
  for (unsigned step = 1; step < blockDim.x; step *= 2) {
    __syncthreads();
    if (threadIdx.x % (2 * step) == 0 && threadIdx.x + step < blockDim.x)
      merge(values[threadIdx.x], values[threadIdx.x + step]);
  }
  __syncthreads();
  return values[0];
}

template <class Number> __device__ inline Number sum_across_block(Number mine) {
  return across_block(mine, [](Number &into, const Number &from) { into += from; });
}
template <class Number> __device__ inline Number maximum_across_block(Number mine) {
  return across_block(mine, [](Number &into, const Number &from) {
    if (is_nan(from) || into < from) into = from;
  });
}

// What before_in_block returns: the states of all threads before this one, and of all threads, merged.
template <class State> struct Preceding {
  State before, all;
};

// Merges the states of the block's threads by into.merge(later), in their order. All threads must call it. `nothing`
// is the state before the first thread; State is as in across_block.
template <class State> __device__ inline Preceding<State> before_in_block(State mine, State nothing) {
  __shared__ State states[2][256];
  __syncthreads(); // threads may still read the states of an earlier call
  states[0][threadIdx.x] = mine;
  unsigned now = 0;
  for (unsigned step = 1; step < blockDim.x; step *= 2, now = 1 - now) {
    __syncthreads();
    State merged = threadIdx.x < step ? states[now][threadIdx.x] : states[now][threadIdx.x - step];
    if (threadIdx.x >= step) merged.merge(states[now][threadIdx.x]);
    states[1 - now][threadIdx.x] = merged;
  }
  __syncthreads();
  return {threadIdx.x ? states[now][threadIdx.x - 1] : nothing, states[now][blockDim.x - 1]};
}

} // namespace tb::kernels
