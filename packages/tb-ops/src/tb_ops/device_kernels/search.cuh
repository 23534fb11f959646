// Searches sorted rows.
#pragma once
#include "language.cuh"

namespace tb::kernels {

// Writes the number of boundaries in the value's row that are less than it, or with a.right those that are not greater.
template <class Stored, class Place> __device__ inline void search(const SearchArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    const Long row = a.shared ? 0 : i / a.values_of_row * a.size;
    const Stored *boundaries = static_cast<const Stored *>(a.boundaries) + row;
    const Math<Stored> value = at<Stored>(a.values, i);
    Long low = 0, high = a.size;
    while (low < high) {
      const Long middle = low + (high - low) / 2;
      const Math<Stored> boundary = wide(boundaries[a.order ? a.order[row + middle] : middle]);
      if (a.right ? boundary > value : boundary >= value) // a NaN is after all boundaries
        high = middle;
      else
        low = middle + 1;
    }
    static_cast<Place *>(a.output)[i] = static_cast<Place>(low);
  }
}

} // namespace tb::kernels
