// Results of all threads of a one-dimensional block.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

// merge(into, from) over the block's threads in a fixed order; every thread gets the result. All threads must call it.
// Value: plain data, with a constructor that does nothing (it is stored in shared memory).
template <class Value, class Merge> __device__ inline Value across_block(Value mine, const Merge &merge) {
  __shared__ Value values[256];
  __syncthreads(); // readers of an earlier call
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
