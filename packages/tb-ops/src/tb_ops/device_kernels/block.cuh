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

} // namespace tb::kernels
