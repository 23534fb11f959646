// Takes the chosen elements of a tensor. a.counts has, for each element, how many are chosen up to it and including it.
#pragma once
#include "language.cuh"

namespace tb::kernels {

// Returns the place of element i among the chosen ones, or -1 if it is not chosen.
__device__ inline Long chosen_place(const CompactArguments &a, Long i) {
  return a.counts[i] == (i ? a.counts[i - 1] : 0) ? -1 : a.counts[i] - 1;
}

template <class Stored> __device__ inline void compact(const CompactArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads())
    if (const Long place = chosen_place(a, i); place >= 0)
      static_cast<Stored *>(a.output)[place] = static_cast<const Stored *>(a.input)[i];
}

// Does the opposite: chosen elements get one element of the input after the other, others keep their value.
template <class Stored> __device__ inline void expand(const CompactArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads())
    if (const Long place = chosen_place(a, i); place >= 0) {
      require(place < a.limit, "masked_scatter: the source has fewer elements than the mask chooses", invalid_value);
      if (place < a.limit) static_cast<Stored *>(a.output)[i] = static_cast<const Stored *>(a.input)[place];
    }
}

// Writes the coordinates of the a.limit chosen elements, those of one dimension side by side. Dimension 0 is the slowest.
template <class Stored> __device__ inline void coordinates(const CompactArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    const Long place = chosen_place(a, i);
    if (place < 0) continue;
    Long rest = i;
    for (int d = a.dims - 1; d >= 0; d--) {
      static_cast<Stored *>(a.output)[d * a.limit + place] = static_cast<Stored>(rest % a.sizes[d]);
      rest /= a.sizes[d];
    }
  }
}

} // namespace tb::kernels
