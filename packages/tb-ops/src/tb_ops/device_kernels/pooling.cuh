// Maxima and averages of windows, forward and backward. A thread computes each element of the result, so that gradients
// are added in a fixed order.
#pragma once
#include "volume.cuh"

namespace tb::kernels {

// Returns the places of the output whose windows may have place `at` of the input.
__device__ inline Span windows_with(const PoolArguments &a, int d, int at) {
  const Long last = at + a.padding[d], first = last - (a.kernel[d] - 1) * a.dilation[d];
  return span_of(divide_up(first, a.stride[d]), divide_up(last + 1, a.stride[d]), a.output.sizes[d]);
}

// ---- maxima -------------------------------------------------------------------------------------------------------

// An index is the place in a channel as if the channel were contiguous.
__device__ inline Long flat_place(const Volume &v, int z, int y, int x) {
  return (z * v.sizes[1] + y) * v.sizes[2] + x;
}

template <class Stored> __device__ inline void max_pool(const PoolArguments &a) {
  using Number = Math<Stored>;
  const Long count = count_of(a.output);
  for (Long i = first_element(); i < count; i += all_threads()) {
    const Place place = place_of(a.output, i);
    const Long plane = plane_offset(a.input, place);
    int first[3], end[3], step[3];
    for (int d = 0; d < 3; d++) {
      const Long begin = place.at[d] * a.stride[d] - a.padding[d];
      const Long outside = begin < 0 ? divide_up(-begin, a.dilation[d]) : 0; // elements of the window
      first[d] = static_cast<int>(begin + outside * a.dilation[d]);
      end[d] = span_limit(begin + (a.kernel[d] - 1) * a.dilation[d] + 1, a.input.sizes[d]);
      step[d] = static_cast<int>(a.dilation[d]);
    }
    Number best = Limits<Number>::lowest();
    Long where = flat_place(a.input, first[0], first[1], first[2]);
    for (int z = first[0]; z < end[0]; z += step[0])
      for (int y = first[1]; y < end[1]; y += step[1])
        for (int x = first[2]; x < end[2]; x += step[2]) {
          const Number value = at<Stored>(a.input.data, plane + space_offset(a.input, z, y, x));
          if (!(best < value) && !is_nan(value)) continue;
          best = value;
          where = flat_place(a.input, z, y, x);
        }
    put<Stored>(a.output.data, offset_of(a.output, place), best);
    static_cast<Long *>(a.indices.data)[offset_of(a.indices, place)] = where;
  }
}

template <class Stored> __device__ inline void max_pool_backward(const PoolArguments &a) {
  const Long count = count_of(a.input);
  for (Long i = first_element(); i < count; i += all_threads()) {
    const Place place = place_of(a.input, i);
    const Long mine = flat_place(a.input, place.at[0], place.at[1], place.at[2]);
    const Long plane = plane_offset(a.output, place), places = plane_offset(a.indices, place);
    const Span deep = windows_with(a, 0, place.at[0]), down = windows_with(a, 1, place.at[1]),
               right = windows_with(a, 2, place.at[2]);
    Math<Stored> total = 0;
    for (int z = deep.begin; z < deep.end; z++)
      for (int y = down.begin; y < down.end; y++)
        for (int x = right.begin; x < right.end; x++)
          if (static_cast<const Long *>(a.indices.data)[places + space_offset(a.indices, z, y, x)] == mine)
            total += at<Stored>(a.output.data, plane + space_offset(a.output, z, y, x));
    put<Stored>(a.input.data, offset_of(a.input, place), total);
  }
}

// ---- averages -----------------------------------------------------------------------------------------------------

// The places of a window, and how many places along the dimension the average counts.
struct Window {
  Span span;
  Long counted;
};

// An adaptive window is the part of the input that the place covers if both are of equal length.
template <bool adaptive> __device__ inline Window window_of(const PoolArguments &a, int d, int at) {
  const Long size = a.input.sizes[d];
  if constexpr (adaptive) {
    const Span span = span_of(at * size / a.output.sizes[d], divide_up((at + 1) * size, a.output.sizes[d]), size);
    return {span, span.end - span.begin};
  } else {
    const Long begin = at * a.stride[d] - a.padding[d], past = size + a.padding[d];
    const Long end = begin + a.kernel[d] < past ? begin + a.kernel[d] : past;
    const Span span = span_of(begin, end, size);
    return {span, a.padded ? end - begin : span.end - span.begin};
  }
}

template <bool adaptive> __device__ inline Span averages_with(const PoolArguments &a, int d, int at) {
  const Long size = a.input.sizes[d], outputs = a.output.sizes[d];
  if constexpr (adaptive)
    return span_of(at * outputs / size, divide_up((at + 1) * outputs, size), outputs);
  else
    return windows_with(a, d, at);
}

template <class Stored, bool adaptive> __device__ inline void average_pool(const PoolArguments &a) {
  using Number = Math<Stored>;
  const Long count = count_of(a.output);
  for (Long i = first_element(); i < count; i += all_threads()) {
    const Place place = place_of(a.output, i);
    const Long plane = plane_offset(a.input, place);
    const Window deep = window_of<adaptive>(a, 0, place.at[0]), down = window_of<adaptive>(a, 1, place.at[1]),
                 right = window_of<adaptive>(a, 2, place.at[2]);
    Number total = 0;
    for (int z = deep.span.begin; z < deep.span.end; z++)
      for (int y = down.span.begin; y < down.span.end; y++)
        for (int x = right.span.begin; x < right.span.end; x++)
          total += at<Stored>(a.input.data, plane + space_offset(a.input, z, y, x));
    const Long divisor = a.divisor ? a.divisor : deep.counted * down.counted * right.counted;
    put<Stored>(a.output.data, offset_of(a.output, place), total / static_cast<Number>(divisor));
  }
}

template <class Stored, bool adaptive> __device__ inline void average_pool_backward(const PoolArguments &a) {
  using Number = Math<Stored>;
  const Long count = count_of(a.input);
  for (Long i = first_element(); i < count; i += all_threads()) {
    const Place place = place_of(a.input, i);
    const Long plane = plane_offset(a.output, place);
    const Span deep = averages_with<adaptive>(a, 0, place.at[0]), down = averages_with<adaptive>(a, 1, place.at[1]),
               right = averages_with<adaptive>(a, 2, place.at[2]);
    Number total = 0;
    for (int z = deep.begin; z < deep.end; z++)
      for (int y = down.begin; y < down.end; y++)
        for (int x = right.begin; x < right.end; x++) {
          const Long counted = window_of<adaptive>(a, 0, z).counted * window_of<adaptive>(a, 1, y).counted *
                               window_of<adaptive>(a, 2, x).counted;
          total += at<Stored>(a.output.data, plane + space_offset(a.output, z, y, x)) /
                   static_cast<Number>(a.divisor ? a.divisor : counted);
        }
    put<Stored>(a.input.data, offset_of(a.input, place), total);
  }
}

} // namespace tb::kernels
