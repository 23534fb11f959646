// Kernels for contiguous elements whose value depends on their place.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

template <class Stored> __device__ inline void range(const RangeArguments &a) {
  using Number = Sum<Stored>; // a wide type, so that the products keep their digits
  for (Long i = first_element(); i < a.count; i += all_threads())
    put<Stored>(a.output, i, static_cast<Number>(number_of<Number>(a.start) + number_of<Number>(a.step) * Number(i)));
}

// Counts from the nearer end, so that both ends are exact.
template <class Stored, class Number> __device__ inline void count_steps(const RangeArguments &a) {
  const Number start = number_of<Number>(a.start.real), end = number_of<Number>(a.end.real);
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    const bool first = i < a.count / 2;
    const Number distance = number_of<Number>(a.step.real) * Number(first ? i : a.count - 1 - i);
    put<Stored>(a.output, i, first ? start + distance : end - distance);
  }
}
template <class Stored> __device__ inline void linspace(const RangeArguments &a) {
  if constexpr (Traits<Stored>::floating)
    count_steps<Stored, Sum<Stored>>(a);
  else
    count_steps<Stored, FloatSum>(a);
}

template <class Stored> __device__ inline void assertion(const AssertionArguments &a) {
  if (first_element() != 0) return;
  require(at<Stored>(a.value.data, 0) != Math<Stored>(0),
          "torch._assert_async: a condition that the device computed is false", invalid_value);
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
