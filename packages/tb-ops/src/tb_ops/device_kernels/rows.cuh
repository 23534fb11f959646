// Kernels for contiguous elements whose value depends on their place.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

template <class Stored> __device__ inline void range(const RangeArguments &a) {
  using Number = Sum<Stored>; // a wide type, so that the products keep their digits
  for (Long i = first_element(); i < a.count; i += all_threads())
    put<Stored>(a.output, i, static_cast<Number>(number_of<Number>(a.start) + number_of<Number>(a.step) * Number(i)));
}

// Copies a triangle. Elements beyond the diagonal (before it, for an upper triangle) become zero.
template <class Stored> __device__ inline void triangle(const TriangleArguments &a) {
  const Stored *from = static_cast<const Stored *>(a.input);
  const Long count = a.batch * a.rows * a.columns;
  for (Long i = first_element(); i < count; i += all_threads()) {
    const Long distance = i % a.columns - i / a.columns % a.rows - a.diagonal;
    static_cast<Stored *>(a.output)[i] = (a.upper ? distance >= 0 : distance <= 0) ? from[i] : Stored{};
  }
}

} // namespace tb::kernels
