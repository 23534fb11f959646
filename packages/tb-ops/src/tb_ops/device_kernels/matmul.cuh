// Batched matrix products with any strides. A block computes each tile of the output.
//
// A tile has tb_matmul_side squared elements; each thread computes tb_matmul_piece squared of them in registers. The
// shim chooses both: a tile has 256 threads on a GPU and 4 on the host, where a thread should do more work.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

constexpr int matmul_depth = 16; // depth of the slices that a block keeps in shared memory
constexpr int matmul_threads = (tb_matmul_side / tb_matmul_piece) * (tb_matmul_side / tb_matmul_piece);

// Adds the products of a slice to this thread's piece of the tile.
template <class Number> __device__ inline void add_products(const Number (&first)[matmul_depth][tb_matmul_side],
                                                            const Number (&second)[matmul_depth][tb_matmul_side],
                                                            int row, int column,
                                                            Number (&sums)[tb_matmul_piece][tb_matmul_piece]) {
  for (int d = 0; d < matmul_depth; d++)
    for (int r = 0; r < tb_matmul_piece; r++) {
      const Number left = first[d][row + r];
      for (int c = 0; c < tb_matmul_piece; c++)
        sums[r][c] = number::multiply_add(left, second[d][column + c], sums[r][c]);
    }
}

template <class Stored>
__device__ inline void matmul_tile(const MatmulArguments &a, Long batch, Long row, Long column) {
  using Number = Math<Stored>;
  constexpr int side = tb_matmul_side, piece = tb_matmul_piece, across = side / piece;
  __shared__ Number first[matmul_depth][side], second[matmul_depth][side];
  const int thread = static_cast<int>(threadIdx.x), my_row = thread / across * piece,
            my_column = thread % across * piece;
  const Stored *from = static_cast<const Stored *>(a.first) + batch * a.first_strides[0];
  const Stored *other = static_cast<const Stored *>(a.second) + batch * a.second_strides[0];
  Number sums[piece][piece] = {};
  for (Long slice = 0; slice < a.depth; slice += matmul_depth) {
    __syncthreads(); // threads may still read the slice before
    for (int i = thread; i < side * matmul_depth; i += matmul_threads) {
      // Neighbouring threads read neighbouring elements of the matrix if its rows or its columns are dense.
      const bool deep = a.first_strides[2] == 1;
      const int r = deep ? i / matmul_depth : i % side, d = deep ? i % matmul_depth : i / side;
      const bool inside = row + r < a.rows && slice + d < a.depth;
      first[d][r] = inside ? wide(from[(row + r) * a.first_strides[1] + (slice + d) * a.first_strides[2]]) : Number(0);
      const bool flat = a.second_strides[2] == 1;
      const int c = flat ? i % side : i / matmul_depth, e = flat ? i / side : i % matmul_depth;
      const bool within = column + c < a.columns && slice + e < a.depth;
      second[e][c] =
          within ? wide(other[(slice + e) * a.second_strides[1] + (column + c) * a.second_strides[2]]) : Number(0);
    }
    __syncthreads();
    add_products(first, second, my_row, my_column, sums);
  }
  for (int r = 0; r < piece; r++)
    for (int c = 0; c < piece; c++) {
      const Long i = row + my_row + r, j = column + my_column + c;
      if (i >= a.rows || j >= a.columns) continue;
      Number value = static_cast<Number>(number_of<Number>(a.alpha) * sums[r][c]);
      if (a.added)
        value =
            static_cast<Number>(value + number_of<Number>(a.beta) *
                                            at<Stored>(a.added, batch * a.added_strides[0] + i * a.added_strides[1] +
                                                                    j * a.added_strides[2]));
      put<Stored>(a.output, batch * a.output_strides[0] + i * a.output_strides[1] + j * a.output_strides[2], value);
    }
}

template <class Stored> __device__ inline void matmul(const MatmulArguments &a) {
  const Long down = (a.rows + tb_matmul_side - 1) / tb_matmul_side;
  const Long right = (a.columns + tb_matmul_side - 1) / tb_matmul_side;
  for (Long tile = blockIdx.x; tile < a.batch * down * right; tile += gridDim.x) {
    const Long place = tile % (down * right);
    matmul_tile<Stored>(a, tile / (down * right), place / right * tb_matmul_side, place % right * tb_matmul_side);
  }
}

} // namespace tb::kernels
