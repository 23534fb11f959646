// Places in tensors of batch x channels x three spatial dimensions.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

struct Place {
  Long batch, channel;
  int at[3];
};

template <class Index> __device__ inline Place find_place(const Volume &v, Index i) {
  const Index channels = static_cast<Index>(v.channels);
  const bool channels_last = v.channel_stride == 1;
  Place place{};
  if (channels_last) {
    const Index next = i / channels;
    place.channel = static_cast<Long>(i - next * channels);
    i = next;
  }
  for (int d = 2; d >= 0; d--) {
    const Index size = static_cast<Index>(v.sizes[d]), next = i / size;
    place.at[d] = static_cast<int>(i - next * size);
    i = next;
  }
  if (channels_last) {
    place.batch = static_cast<Long>(i);
  } else {
    place.batch = static_cast<Long>(i / channels);
    place.channel = static_cast<Long>(i - static_cast<Index>(place.batch) * channels);
  }
  return place;
}

__device__ inline Long count_of(const Volume &v) { return v.batch * v.channels * v.sizes[0] * v.sizes[1] * v.sizes[2]; }

// Returns the place of element i, in an order in which the neighbours of an element are near it in memory.
__device__ inline Place place_of(const Volume &v, Long i) {
  if (count_of(v) <= 0x7FFFFFFF) // 64-bit divisions cost a GPU several times as much as 32-bit ones
    return find_place<unsigned>(v, static_cast<unsigned>(i));
  return find_place<Unsigned>(v, static_cast<Unsigned>(i));
}

// The offsets of a channel of a sample, and of a place in it.
__device__ inline Long plane_offset(const Volume &v, const Place &place) {
  return place.batch * v.batch_stride + place.channel * v.channel_stride;
}
__device__ inline Long space_offset(const Volume &v, int z, int y, int x) {
  return z * v.strides[0] + y * v.strides[1] + x * v.strides[2];
}
__device__ inline Long offset_of(const Volume &v, const Place &place) {
  return plane_offset(v, place) + space_offset(v, place.at[0], place.at[1], place.at[2]);
}

// Places from `begin` to before `end` along a dimension.
struct Span {
  int begin, end;
};

__device__ inline int span_limit(Long place, Long size) {
  return static_cast<int>(place < 0 ? 0 : place > size ? size : place);
}
__device__ inline Span span_of(Long begin, Long end, Long size) {
  return {span_limit(begin, size), span_limit(end, size)};
}

// Rounds the quotient up. The divisor is positive.
__device__ inline Long divide_up(Long a, Long b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

} // namespace tb::kernels
