// Reads and writes elements at places that several tensors of indices give together: x[i, j], x[i, j] = y.
#pragma once
#include "indexing.cuh"

namespace tb::kernels {

// Byte offsets of element i: of the operand that has its shape, of the indexed tensor, and whether all indices are
// within the sizes. Indices below 0 count from the end.
struct Indexed {
  Long plain, indexed;
  bool good;
};
__device__ inline Indexed find_indexed(const AdvancedIndexArguments &a, Long i) {
  Long plain = 0, indexed = 0, offsets[max_indices] = {};
  for (int d = 0; d < a.dims; d++) {
    const Long next = i / a.sizes[d], place = i - next * a.sizes[d];
    plain += place * a.plain_strides[d];
    indexed += place * a.indexed_strides[d];
    for (int k = 0; k < a.indices; k++) offsets[k] += place * a.index_strides[k][d];
    i = next;
  }
  bool good = true;
  for (int k = 0; k < a.indices; k++) {
    const Long index = *reinterpret_cast<const Long *>(static_cast<const char *>(a.index[k]) + offsets[k]);
    good = good && index >= -a.limits[k] && index < a.limits[k];
    indexed += (index < 0 ? index + a.limits[k] : index) * a.steps[k];
  }
  require(good, out_of_range);
  return {plain, indexed, good};
}

template <class Stored> __device__ inline Stored *element(void *data, Long offset) {
  return reinterpret_cast<Stored *>(static_cast<char *>(data) + offset);
}

template <class Stored> __device__ inline void index_get(const AdvancedIndexArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads())
    if (const Indexed found = find_indexed(a, i); found.good)
      *element<Stored>(a.plain, found.plain) = *element<Stored>(a.indexed, found.indexed);
}

// Of several values for one place any may be kept.
template <class Stored> __device__ inline void index_put(const AdvancedIndexArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads())
    if (const Indexed found = find_indexed(a, i); found.good)
      *element<Stored>(a.indexed, found.indexed) = *element<Stored>(a.plain, found.plain);
}

// Adds in no fixed order.
template <class Stored> __device__ inline void index_put_add(const AdvancedIndexArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads())
    if (const Indexed found = find_indexed(a, i); found.good)
      atomic_add(element<Stored>(a.indexed, found.indexed), *element<Stored>(a.plain, found.plain));
}

} // namespace tb::kernels
