// Resizing of images by the nearest element or by linear interpolation, forward and backward. The coordinates are those
// of PyTorch's CPU kernels, to the bit. A thread computes each element of the result, so that gradients are added in a
// fixed order.
#pragma once
#include "volume.cuh"

namespace tb::kernels {

// The two elements along a dimension that an element of the output is between, and the weight of the second.
template <class Number> struct Neighbours {
  int first, second;
  Number weight;
};

__device__ inline int below(Long place, Long size) { return span_limit(place, size - 1); }

// Coordinates of nearest elements are in float for all types.
struct Nearest {
  __device__ static int neighbours(const UpsampleArguments &) { return 1; }
  template <class Number> __device__ static Neighbours<Number> find(const UpsampleArguments &a, int d, int at) {
    const float place = static_cast<float>(at) * number_of<float>(a.scales[d]);
    const int found = below(static_cast<Long>(number::floor(place)), a.input.sizes[d]);
    return {found, found, Number(0)};
  }
};

struct NearestExact {
  __device__ static int neighbours(const UpsampleArguments &) { return 1; }
  template <class Number> __device__ static Neighbours<Number> find(const UpsampleArguments &a, int d, int at) {
    const float place = (static_cast<float>(at) + 0.5f) * number_of<float>(a.scales[d]);
    const int found = below(static_cast<Long>(number::floor(place)), a.input.sizes[d]);
    return {found, found, Number(0)};
  }
};

struct Linear {
  __device__ static int neighbours(const UpsampleArguments &a) { return 1 << a.dimensions; }
  template <class Number> __device__ static Neighbours<Number> find(const UpsampleArguments &a, int d, int at) {
    const Long size = a.input.sizes[d];
    const Number scale = number_of<Number>(a.scales[d]), half = Number(1) / Number(2), place = static_cast<Number>(at);
    Number from = a.align_corners ? scale * place : scale * (place + half) - half;
    if (from < Number(0)) from = 0;
    const int first = below(static_cast<Long>(number::floor(from)), size);
    Number weight = from - static_cast<Number>(first);
    if (weight > Number(1)) weight = 1;
    return {first, first + 1 < size ? first + 1 : first, weight};
  }
};

template <class Stored, class Mode> __device__ inline void upsample(const UpsampleArguments &a) {
  using Number = Math<Stored>;
  const Long count = count_of(a.output);
  for (Long i = first_element(); i < count; i += all_threads()) {
    const Place place = place_of(a.output, i);
    const Long plane = plane_offset(a.input, place);
    Neighbours<Number> found[3];
    for (int d = 0; d < 3; d++) found[d] = Mode::template find<Number>(a, d, place.at[d]);
    Number total = 0;
    for (int corner = 0; corner < Mode::neighbours(a); corner++) { // of the box of neighbours
      Number weight = 1;
      int near[3];
      for (int d = 0; d < 3; d++) {
        const bool second = corner >> (2 - d) & 1;
        near[d] = second ? found[d].second : found[d].first;
        weight *= second ? found[d].weight : Number(1) - found[d].weight;
      }
      // A neighbour without weight counts too: 0 times infinity is NaN, as on the CPU and on CUDA.
      total += weight * at<Stored>(a.input.data, plane + space_offset(a.input, near[0], near[1], near[2]));
    }
    put<Stored>(a.output.data, offset_of(a.output, place), total);
  }
}

// Returns the places of the output that may have used place `at` of the input: one more at both ends, because their
// coordinates are rounded.
template <class Number> __device__ inline Span users_of(const UpsampleArguments &a, int d, int at) {
  const Long outputs = a.output.sizes[d];
  const Number scale = number_of<Number>(a.scales[d]);
  if (!(scale > Number(0))) return {0, static_cast<int>(outputs)};
  const Number low = static_cast<Number>(at - 1) / scale, high = static_cast<Number>(at + 2) / scale;
  const Number last = static_cast<Number>(outputs);
  const Long first = low > last ? outputs : static_cast<Long>(number::floor(low)) - 1;
  const Long end = at + 1 == a.input.sizes[d] || high > last ? outputs : static_cast<Long>(number::ceil(high)) + 2;
  return span_of(first, end, outputs);
}

// Returns the weight of place `to` of the input in place `at` of the output.
template <class Number, class Mode>
__device__ inline Number share_of(const UpsampleArguments &a, int d, int at, int to) {
  const Neighbours<Number> found = Mode::template find<Number>(a, d, at);
  return (found.first == to ? Number(1) - found.weight : Number(0)) + (found.second == to ? found.weight : Number(0));
}

template <class Stored, class Mode> __device__ inline void upsample_backward(const UpsampleArguments &a) {
  using Number = Math<Stored>;
  const Long count = count_of(a.input);
  for (Long i = first_element(); i < count; i += all_threads()) {
    const Place place = place_of(a.input, i);
    const Long plane = plane_offset(a.output, place);
    const Span deep = users_of<Number>(a, 0, place.at[0]), down = users_of<Number>(a, 1, place.at[1]),
               right = users_of<Number>(a, 2, place.at[2]);
    Number total = 0;
    for (int z = deep.begin; z < deep.end; z++) {
      const Number share = share_of<Number, Mode>(a, 0, z, place.at[0]);
      if (share == Number(0)) continue;
      for (int y = down.begin; y < down.end; y++) {
        const Number part = share * share_of<Number, Mode>(a, 1, y, place.at[1]);
        if (part == Number(0)) continue;
        for (int x = right.begin; x < right.end; x++) {
          const Number weight = part * share_of<Number, Mode>(a, 2, x, place.at[2]);
          if (weight != Number(0)) total += weight * at<Stored>(a.output.data, plane + space_offset(a.output, z, y, x));
        }
      }
    }
    put<Stored>(a.input.data, offset_of(a.input, place), total);
  }
}

} // namespace tb::kernels
