// Batched products of matrices with any strides, for devices on which one thread computes with vectors.
#pragma once
#include "vector_tile.cuh"

namespace tb::kernels {

template <class A, class B> constexpr bool same_type = false;
template <class A> constexpr bool same_type<A, A> = true;

// One tile of the result. The pointers are those of its first row and of its first column.
template <class Stored, int lanes> struct VectorProduct {
  using Number = Math<Stored>;
  using Vectors = Lanes<Number, lanes>;
  using Tile = VectorTile<Number>;

  const MatmulArguments &a;
  const Stored *first, *second;
  Long added, output; // offsets of the first element
  int rows, columns;

  __device__ void take_rows(Tile &tile, Long slice, int row, int depth) const {
    const Long down = a.first_strides[1], right = a.first_strides[2];
    const Stored *from = first + row * down + slice * right;
    if (row + panel_rows <= rows)
      for (int d = 0; d < depth; d++)
        for (int r = 0; r < panel_rows; r++) tile.first[d][r] = wide(from[r * down + d * right]);
    else
      for (int d = 0; d < depth; d++)
        for (int r = 0; r < panel_rows; r++)
          tile.first[d][r] = row + r < rows ? wide(from[r * down + d * right]) : Number(0);
  }

  __device__ void take_columns(Tile &tile, Long slice, int column, int depth) const {
    const Long down = a.second_strides[1], right = a.second_strides[2];
    const bool whole = column + lanes <= columns;
    for (int d = 0; d < depth; d++) {
      const Stored *from = second + (slice + d) * down + column * right;
      typename Vectors::Vector taken = Vectors::all(0);
      if (same_type<Stored, Number> && whole && right == 1)
        taken = Vectors::load(reinterpret_cast<const Number *>(from));
      else if (whole)
        for (int c = 0; c < lanes; c++) taken[c] = wide(from[c * right]);
      else
        for (int c = 0; c < columns - column; c++) taken[c] = wide(from[c * right]);
      Vectors::store(tile.second + column * tile.depth + d * lanes, taken);
    }
  }

  __device__ void put_row(const Number *sums, int row) const {
    const Number alpha = number_of<Number>(a.alpha), beta = number_of<Number>(a.beta);
    const Long to = output + row * a.output_strides[1], from = added + row * a.added_strides[1];
    const bool dense = same_type<Stored, Number> && a.output_strides[2] == 1 && (!a.added || a.added_strides[2] == 1);
    int c = 0;
    for (; dense && c + lanes <= columns; c += lanes) {
      typename Vectors::Vector value = Vectors::multiply(Vectors::all(alpha), Vectors::load(sums + c));
      if (a.added) {
        const auto shift = Vectors::load(static_cast<const Number *>(a.added) + from + c);
        value = Vectors::add(value, Vectors::multiply(Vectors::all(beta), shift));
      }
      Vectors::store(static_cast<Number *>(a.output) + to + c, value);
    }
    for (; c < columns; c++) {
      Number value = static_cast<Number>(alpha * sums[c]);
      if (a.added) value = static_cast<Number>(value + beta * at<Stored>(a.added, from + c * a.added_strides[2]));
      put<Stored>(a.output, to + c * a.output_strides[2], value);
    }
  }

  __device__ void compute(Tile &tile) const {
    clear(tile);
    for (Long slice = 0; slice < a.depth; slice += tile.depth) {
      const int depth = static_cast<int>(a.depth - slice < tile.depth ? a.depth - slice : tile.depth);
      for (int c = 0; c < columns; c += lanes) take_columns(tile, slice, c, depth);
      add_slice<lanes>(tile, rows, columns, depth, [&](int row) { take_rows(tile, slice, row, depth); });
    }
    for (int r = 0; r < rows; r++) put_row(tile.sums[r], r);
  }
};

template <class Stored, int bytes>
__device__ inline void matmul_vector_tiles(const MatmulArguments &a, VectorTile<Math<Stored>> &tile) {
  constexpr int height = vector_tile_rows, width = VectorTile<Math<Stored>>::columns;
  const Long down = (a.rows + height - 1) / height, right = (a.columns + width - 1) / width;
  for (Long i = blockIdx.x; i < a.batch * down * right; i += gridDim.x) {
    const Long batch = i / (down * right), place = i % (down * right);
    const Long row = place / right * height, column = place % right * width;
    const VectorProduct<Stored, lanes_of<Math<Stored>, bytes>> product{
        a,
        static_cast<const Stored *>(a.first) + batch * a.first_strides[0] + row * a.first_strides[1],
        static_cast<const Stored *>(a.second) + batch * a.second_strides[0] + column * a.second_strides[2],
        batch * a.added_strides[0] + row * a.added_strides[1] + column * a.added_strides[2],
        batch * a.output_strides[0] + row * a.output_strides[1] + column * a.output_strides[2],
        static_cast<int>(a.rows - row < height ? a.rows - row : height),
        static_cast<int>(a.columns - column < width ? a.columns - column : width)};
    product.compute(tile);
  }
}

template <class Stored> __device__ inline void matmul_vectors(const MatmulArguments &a) {
  __shared__ VectorTile<Math<Stored>> tile;
  if (a.vector_size >= 64)
    matmul_vector_tiles<Stored, 64>(a, tile);
  else
    matmul_vector_tiles<Stored, 32>(a, tile);
}

} // namespace tb::kernels
