// Reductions inside generated kernels. A block or a thread computes a row; its state is one of the reducers of
// reduce.cuh.
#pragma once
#include "fused.cuh"
#include "reduce.cuh"

namespace tb::kernels {

// The remainder of a division by 2 of the number of set bits, in each place.
template <class Stored> struct ExclusiveOrOf {
  Long total;
  __device__ static ExclusiveOrOf init(const Scalar *) { return {0}; }
  __device__ void add(Stored x, Long) { total ^= static_cast<Long>(x); }
  __device__ void merge(const ExclusiveOrOf &other) { total ^= other.total; }
};

template <class Reducer> __device__ inline Reducer begin_reduction() { return Reducer::init(nullptr); }

// Returns the moments of some numbers, whose count may be 0.
template <class Stored, class A, class B, class C>
__device__ inline VarianceOf<Stored> moments(A mean, B squares, C count) {
  using Number = Sum<Stored>;
  return {static_cast<Number>(mean), static_cast<Number>(squares), static_cast<Number>(count)};
}

// Gives every thread of the block the result of all.
template <class Reducer> __device__ inline void merge_block(Reducer &mine) {
  mine = across_block(mine, [](Reducer &into, const Reducer &from) { into.merge(from); });
}

} // namespace tb::kernels
