// Gathering, scattering and selecting by an index. Elements are copied as they are stored; only sums compute with them.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

constexpr const char *out_of_range = "index out of range: an index is negative or not below the size of its dimension";

// The offsets, in elements, at which element i of the index finds its elements of `indexed` and `other`. `good` is
// false if the index is out of range.
struct Found {
  Long indexed, other;
  bool good;
};
__device__ inline Found look_up(const IndexArguments &a, Long i) {
  Long index = 0, indexed = 0, other = 0;
  for (int d = 0; d < a.dims; d++) {
    const Long next = i / a.sizes[d], place = i - next * a.sizes[d];
    index += place * a.index_strides[d];
    other += place * a.other_strides[d];
    if (d != a.dim) indexed += place * a.indexed_strides[d];
    i = next;
  }
  const Long at = a.index[index];
  const bool good = at >= 0 && at < a.limit;
  require(good, out_of_range, invalid_value); // gather and scatter raise a RuntimeError on the CPU
  return {indexed + at * a.indexed_strides[a.dim], other, good};
}

template <class Stored> __device__ inline void gather(const IndexArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    const Found found = look_up(a, i);
    if (found.good) static_cast<Stored *>(a.other)[found.other] = static_cast<const Stored *>(a.indexed)[found.indexed];
  }
}

template <class Stored> __device__ inline void scatter(const IndexArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    const Found found = look_up(a, i);
    if (!found.good) continue;
    static_cast<Stored *>(a.indexed)[found.indexed] =
        a.other ? static_cast<const Stored *>(a.other)[found.other] : convert<Stored>(number_of<Math<Stored>>(a.value));
  }
}

// Adds in no fixed order, so that floating-point sums may differ in their last digits from run to run.
template <class Stored> __device__ inline void scatter_add(const IndexArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    const Found found = look_up(a, i);
    if (found.good)
      atomic_add(static_cast<Stored *>(a.indexed) + found.indexed, static_cast<const Stored *>(a.other)[found.other]);
  }
}

__device__ inline Long selected(const SelectArguments &a, Long i) {
  return a.index_type == Int64 ? static_cast<const Long *>(a.index)[i] : static_cast<const int *>(a.index)[i];
}

// Computes result[o, i, n] = source[o, index[i], n].
template <class Stored> __device__ inline void select(const SelectArguments &a) {
  const Long all = a.outer * a.count * a.inner;
  for (Long i = first_element(); i < all; i += all_threads()) {
    const Long place = selected(a, i / a.inner % a.count);
    const bool good = place >= 0 && place < a.places;
    require(good, out_of_range);
    if (!good) continue;
    const Long from = (i / a.inner / a.count * a.places + place) * a.inner + i % a.inner;
    static_cast<Stored *>(a.result)[i] = static_cast<const Stored *>(a.source)[from];
  }
}

// Computes result[o, index[i], n] = source[o, i, n], or a.value without a source. Of several elements for one place any
// may be kept.
template <class Stored> __device__ inline void select_put(const SelectArguments &a) {
  const Long all = a.outer * a.count * a.inner;
  for (Long i = first_element(); i < all; i += all_threads()) {
    const Long given = selected(a, i / a.inner % a.count), place = given < 0 && !a.source ? given + a.places : given;
    const bool good = place >= 0 && place < a.places;
    require(good, out_of_range);
    if (!good) continue;
    const Long to = (i / a.inner / a.count * a.places + place) * a.inner + i % a.inner;
    static_cast<Stored *>(a.result)[to] =
        a.source ? static_cast<const Stored *>(a.source)[i] : convert<Stored>(number_of<Math<Stored>>(a.value));
  }
}

// Computes result[o, index[i], n] += source[o, i, n]. The result has type Total, which is at least as wide as Stored.
template <class Stored, class Total> __device__ inline void select_add(const SelectArguments &a) {
  const Long all = a.outer * a.count * a.inner;
  for (Long i = first_element(); i < all; i += all_threads()) {
    const Long place = selected(a, i / a.inner % a.count);
    if (place == a.skipped) continue;
    const bool good = place >= 0 && place < a.places;
    require(good, out_of_range);
    if (!good) continue;
    const Long to = (i / a.inner / a.count * a.places + place) * a.inner + i % a.inner;
    atomic_add(static_cast<Total *>(a.result) + to, convert<Total>(static_cast<const Stored *>(a.source)[i]));
  }
}

} // namespace tb::kernels
