// Stable sorts of rows: tiles in shared memory, then runs of the whole row are merged through memory.
#pragma once
#include "language.cuh"

namespace tb::kernels {

// Whether x comes before y. A NaN is greater than all numbers, and equal to a NaN.
template <class Stored> __device__ inline bool comes_before(Stored x, Stored y, bool descending) {
  const Math<Stored> a = wide(descending ? y : x), b = wide(descending ? x : y);
  return is_nan(b) ? !is_nan(a) : a < b;
}

// Returns the place of keys[i] once each pair of adjacent sorted runs is merged. Runs have `width` keys, the last of
// the `size` keys may have fewer. Of equal keys those of the first run come first.
template <class Stored, class Index>
__device__ inline Index merged_place(const Stored *keys, Index i, Index width, Index size, bool descending) {
  const Index pair = i / width / 2 * 2 * width;
  const bool first = i - pair < width;
  const Index other = first ? pair + width : pair;
  Index low = other < size ? other : size, high = size - low < width ? size : low + width;
  while (low < high) {
    const Index middle = low + (high - low) / 2;
    if (first ? comes_before(keys[middle], keys[i], descending) : !comes_before(keys[i], keys[middle], descending))
      low = middle + 1;
    else
      high = middle;
  }
  return first ? i + low - (other < size ? other : size) : i - width + low - other;
}

// Sorts tiles of up to sort_tile elements and writes the first a.kept of each. A tile is a part of a row, or several
// whole rows if they are short.
template <class Stored> __device__ inline void sort_tiles(const SortArguments &a) {
  __shared__ Stored keys[2][sort_tile];
  __shared__ int origins[2][sort_tile]; // places in the tile before the sort
  const Long rows_of_tile = a.size < sort_tile ? sort_tile / a.size : 1;
  const Long tiles_of_row = (a.size + sort_tile - 1) / sort_tile;
  const Long tiles = (a.rows + rows_of_tile - 1) / rows_of_tile * tiles_of_row;
  for (Long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Long row = tile / tiles_of_row * rows_of_tile, start = tile % tiles_of_row * sort_tile;
    const Long begin = row * a.size + start;
    const int size = static_cast<int>(a.size - start < sort_tile ? a.size - start : sort_tile);
    const int count = size * static_cast<int>(a.rows - row < rows_of_tile ? a.rows - row : rows_of_tile);
    __syncthreads(); // threads may still read the tile before
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      keys[0][i] = static_cast<const Stored *>(a.input)[begin + i];
      origins[0][i] = i;
    }
    int now = 0;
    for (int width = 1; width < size; width *= 2, now = 1 - now) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
        const int first = i / size * size;
        const int to = first + merged_place(keys[now] + first, i - first, width, size, a.descending != 0);
        keys[1 - now][to] = keys[now][i];
        origins[1 - now][to] = origins[now][i];
      }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      const int place = i % size;
      if (place >= a.kept) continue;
      const Long to = (row + i / size) * a.kept_of_row + start / sort_tile * a.kept + place, from = origins[now][i];
      static_cast<Stored *>(a.output)[to] = keys[now][i];
      a.output_places[to] = a.input_places ? a.input_places[begin + from] : start + from % size;
    }
  }
}

// Merges pairs of sorted runs of a.width elements in each row.
template <class Stored> __device__ inline void merge_runs(const SortArguments &a) {
  for (Long i = first_element(); i < a.rows * a.size; i += all_threads()) {
    const Long first = i / a.size * a.size;
    const Stored *keys = static_cast<const Stored *>(a.input) + first;
    const Long to = first + merged_place(keys, i - first, a.width, a.size, a.descending != 0);
    static_cast<Stored *>(a.output)[to] = keys[i - first];
    a.output_places[to] = a.input_places[i];
  }
}

} // namespace tb::kernels
