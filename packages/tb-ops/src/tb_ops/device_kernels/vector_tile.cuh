// Tiles of products of matrices for devices on which one thread computes with vectors: a block has one thread.
//
// The thread copies a slice of the second matrix to shared memory, which is in its processor's cache, and multiplies it
// by panels of a few rows, whose sums are in registers. Each element is the sum of its products in the order of the depth,
// so it has the bits of matmul.cuh.
#pragma once
#include "vectors.cuh"

namespace tb::kernels {

constexpr int panel_rows = 12;                   // their sums, a vector for each, leave a few of 16 registers
constexpr int vector_tile_rows = 8 * panel_rows; // a slice of the second matrix is used 8 times

// The memory of a block, with a convolution's indices less than the 48 KiB that CUDA compiles.
template <class Number> struct VectorTile {
  static constexpr int columns = 256 / sizeof(Number), depth = sizeof(Number) == 8 ? 32 : 64;
  Number first[depth][panel_rows];
  Number second[depth * columns]; // the whole depth of one vector of columns after the other
  Number sums[vector_tile_rows][columns];
};

// The lanes of vectors of `bytes` bytes. OpenCL has no vectors with more lanes than 16.
template <class Number, int bytes> constexpr int lanes_of = bytes / sizeof(Number) < 16 ? bytes / sizeof(Number) : 16;

template <class Number> __device__ inline void clear(VectorTile<Number> &tile) {
  for (int r = 0; r < vector_tile_rows; r++)
    for (int c = 0; c < tile.columns; c++) tile.sums[r][c] = 0;
}

// Adds the products of a panel of rows and of the columns that begin with `column` to their sums.
template <int lanes, class Number>
__device__ inline void add_panel(VectorTile<Number> &tile, int row, int column, int depth) {
  using Vectors = Lanes<Number, lanes>;
  const Number *second = tile.second + column * tile.depth;
  typename Vectors::Vector sums[panel_rows];
  for (int r = 0; r < panel_rows; r++) sums[r] = Vectors::load(&tile.sums[row + r][column]);
  for (int d = 0; d < depth; d++) {
    const typename Vectors::Vector right = Vectors::load(second + d * lanes);
    for (int r = 0; r < panel_rows; r++)
      sums[r] = Vectors::multiply_add(Vectors::all(tile.first[d][r]), right, sums[r]);
  }
  for (int r = 0; r < panel_rows; r++) Vectors::store(&tile.sums[row + r][column], sums[r]);
}

// Adds the products of a slice. take_rows(row) copies a panel of the first matrix to tile.first.
template <int lanes, class Number, class TakeRows> __device__ inline void
add_slice(VectorTile<Number> &tile, int rows, int columns, int depth, const TakeRows &take_rows) {
  for (int r = 0; r < rows; r += panel_rows) {
    take_rows(r);
    for (int c = 0; c < columns; c += lanes) add_panel<lanes>(tile, r, c, depth);
  }
}

} // namespace tb::kernels
