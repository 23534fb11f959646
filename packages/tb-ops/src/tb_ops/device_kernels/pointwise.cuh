// Elementwise kernels, with any strides and stored types.
#pragma once
#include "language.cuh"

namespace tb::kernels {

// Computes the byte offsets of element i, in the iterator's order.
template <class Index>
__device__ inline void find_offsets(const PointwiseArguments &a, Index i, int operands, Long *offsets) {
  for (int k = 0; k < operands; k++) offsets[k] = 0;
  for (int d = 0; d < a.dims; d++) {
    const Index size = static_cast<Index>(a.sizes[d]), next = d + 1 == a.dims ? 0 : i / size;
    const Long place = static_cast<Long>(d + 1 == a.dims ? i : i - next * size);
    for (int k = 0; k < operands; k++) offsets[k] += place * a.strides[k][d];
    i = next;
  }
}

// Functor::call(inputs, scalars) returns the output for inputs of type Math<Common>. The output is rounded to Common, also
// if it is stored in a wider type.
template <class Functor, class Common> __device__ inline void pointwise(const PointwiseArguments &a) {
  constexpr int inputs = Functor::inputs;
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    Long offsets[inputs + 1];
    if (a.count <= 0x7FFFFFFF) // 64-bit divisions cost a GPU several times as much as 32-bit ones
      find_offsets<unsigned>(a, static_cast<unsigned>(i), inputs + 1, offsets);
    else
      find_offsets<Unsigned>(a, static_cast<Unsigned>(i), inputs + 1, offsets);
    Math<Common> given[inputs + 1]; // an array of 0 elements is not allowed
    for (int k = 0; k < inputs; k++) {
      const Operand &operand = a.operands[k + 1];
      if (operand.data)
        given[k] = convert<Math<Common>>(load<Common>(operand.data, offsets[k + 1], operand.type));
      else // rounded as if it were stored
        given[k] = convert<Math<Common>>(convert<Common>(number_of<Math<Common>>(a.value)));
    }
    const auto result = Functor::call(given, a.scalars);
    if constexpr (sizeof(Common) < sizeof(Math<Common>) && sizeof(result) == sizeof(Math<Common>)) // 16-bit numbers
      store(a.operands[0].data, offsets[0], a.operands[0].type, convert<Math<Common>>(convert<Common>(result)));
    else
      store(a.operands[0].data, offsets[0], a.operands[0].type, result);
  }
}

// The same for operands that are all of the common type and without gaps, or numbers. It is a kernel of its own because
// a processor's compiler makes vectors of it, and not of one that also has strides and types.
template <class Functor, class Common> __device__ inline void pointwise_dense(const PointwiseArguments &a) {
  constexpr int inputs = Functor::inputs;
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    Math<Common> given[inputs + 1];
    for (int k = 0; k < inputs; k++)
      given[k] = a.operands[k + 1].data ? at<Common>(a.operands[k + 1].data, i)
                                        : convert<Math<Common>>(convert<Common>(number_of<Math<Common>>(a.value)));
    put<Common>(a.operands[0].data, i, Functor::call(given, a.scalars));
  }
}

} // namespace tb::kernels
