// Convolutions of up to three dimensions, with groups: forward, and the gradients of input and weight.
//
// A convolution has a source, which it reads around each place of its target. As a product of matrices, the rows are the
// channels of the target. In the forward pass and in the gradient of the input, the columns are the places of the
// target, and the depth goes over the taps: channels of the source and numbers of the kernel. In the gradient of the
// weight, the columns are the taps, and the depth goes over the places. No matrix of gathered elements is made; a block
// gathers each slice into shared memory.
//
// `transposed` says that the convolution goes the other way: a place of the source contributes to the places of the
// target that it would read. That is the gradient of the input, and a transposed convolution's forward pass.
#pragma once
#include "block.cuh"
#include "matmul.cuh"
#include "volume.cuh"

namespace tb::kernels {

// A place of the target, or a tap: its offset in the source, that in the target or in the weight, and its coordinates
// in the source. If not `transposed`, the offsets of a place and of a tap add up to that of the element; otherwise the
// coordinates decide which element it is.
struct ConvolutionIndex {
  Long source, other;
  int at[3];
  bool inside;
};

__device__ inline Long places(const ConvolutionArguments &a) {
  return a.target.batch * a.target.sizes[0] * a.target.sizes[1] * a.target.sizes[2];
}
__device__ inline Long taps(const ConvolutionArguments &a) { return a.depth * a.kernel[0] * a.kernel[1] * a.kernel[2]; }

template <bool transposed, class Index>
__device__ inline ConvolutionIndex find_place_index(const ConvolutionArguments &a, Long group, Index i) {
  ConvolutionIndex index{};
  index.inside = true;
  index.source = group * a.depth * a.source.channel_stride;
  index.other = group * a.rows * a.target.channel_stride;
  for (int d = 2; d >= 0; d--) {
    const Index size = static_cast<Index>(a.target.sizes[d]), next = i / size;
    const Long place = static_cast<Long>(i - next * size);
    const Long at = transposed ? place + a.padding[d] : place * a.stride[d] - a.padding[d];
    index.at[d] = static_cast<int>(at);
    if (!transposed) index.source += at * a.source.strides[d];
    index.other += place * a.target.strides[d];
    i = next;
  }
  index.source += static_cast<Long>(i) * a.source.batch_stride;
  index.other += static_cast<Long>(i) * a.target.batch_stride;
  return index;
}
template <bool transposed>
__device__ inline ConvolutionIndex place_index(const ConvolutionArguments &a, Long group, Long i) {
  const Long count = places(a);
  if (i >= count) return {};
  if (count <= 0x7FFFFFFF) return find_place_index<transposed>(a, group, static_cast<unsigned>(i));
  return find_place_index<transposed>(a, group, static_cast<Unsigned>(i));
}

// Taps are in the order of the source's memory: channels are the fastest in a source that is channels-last.
template <bool transposed>
__device__ inline ConvolutionIndex tap_index(const ConvolutionArguments &a, Long group, Long i) {
  ConvolutionIndex index{};
  index.inside = i < taps(a);
  if (!index.inside) return index;
  // 64-bit divisions cost a GPU several times as much as 32-bit ones. A group has less than 2^31 taps.
  const unsigned tap = static_cast<unsigned>(i), depth = static_cast<unsigned>(a.depth),
                 window = static_cast<unsigned>(a.kernel[0] * a.kernel[1] * a.kernel[2]);
  const bool channels_last = a.source.channel_stride == 1;
  const unsigned channel = channels_last ? tap % depth : tap / window;
  unsigned rest = channels_last ? tap / depth : tap % window;
  index.source = channel * a.source.channel_stride;
  index.other = group * a.weight_group + channel * a.weight_depth;
  for (int d = 2; d >= 0; d--) {
    const unsigned kernel = static_cast<unsigned>(a.kernel[d]), next = rest / kernel, number = rest - next * kernel;
    const Long at = number * a.dilation[d];
    index.at[d] = static_cast<int>(at);
    if (!transposed) index.source += at * a.source.strides[d];
    index.other += number * a.weight_strides[d];
    rest = next;
  }
  return index;
}

// Returns the element of the source that the tap reads for the place, 0 if that is outside.
template <class Stored, bool transposed> __device__ inline Math<Stored>
gathered(const ConvolutionArguments &a, const ConvolutionIndex &place, const ConvolutionIndex &tap) {
  bool inside = place.inside && tap.inside;
  Long offset = place.source + tap.source;
  for (int d = 0; d < 3; d++) {
    int at = transposed ? place.at[d] - tap.at[d] : place.at[d] + tap.at[d];
    if (transposed) {
      const int stride = static_cast<int>(a.stride[d]), far = at;
      if (stride != 1) at = far / stride; // divisions are slow
      inside = inside && far == at * stride;
      offset += at * a.source.strides[d];
    }
    inside = inside && at >= 0 && at < a.source.sizes[d];
  }
  return inside ? at<Stored>(a.source.data, offset) : Math<Stored>(0);
}

// ---- tiles --------------------------------------------------------------------------------------------------------

// Computes one tile, of the gradient of the weight for one part of the places.
template <class Stored, class Result, bool transposed, bool of_weight>
__device__ inline void convolution_tile(const ConvolutionArguments &a, Long group, Long row, Long column, Long part) {
  using Number = Math<Stored>;
  constexpr int side = tb_matmul_side, piece = tb_matmul_piece, across = side / piece;
  __shared__ Number first[matmul_depth][side], second[matmul_depth][side];
  __shared__ ConvolutionIndex columns[side], slices[matmul_depth];
  const int thread = static_cast<int>(threadIdx.x), my_row = thread / across * piece,
            my_column = thread % across * piece;
  const Long depth = of_weight ? places(a) : taps(a), share = (depth + a.parts - 1) / a.parts;
  const Long begin = part * share, end = begin + share < depth ? begin + share : depth;
  const Stored *from = static_cast<const Stored *>(of_weight ? a.target.data : a.weight);
  const Long from_row = of_weight ? a.target.channel_stride : a.weight_row;
  // Neighbouring threads read neighbouring elements of the weight or the target, and of the source.
  const bool deep = from_row != 1, flat = of_weight == (a.source.channel_stride == 1);
  __syncthreads(); // threads may still use the columns of the tile before
  for (int c = thread; c < side; c += matmul_threads)
    columns[c] =
        of_weight ? tap_index<transposed>(a, group, column + c) : place_index<transposed>(a, group, column + c);
  Number sums[piece][piece] = {};
  for (Long slice = begin; slice < end; slice += matmul_depth) {
    __syncthreads(); // threads may still read the slice before
    for (int d = thread; d < matmul_depth; d += matmul_threads) {
      slices[d] = of_weight ? place_index<transposed>(a, group, slice + d) : tap_index<transposed>(a, group, slice + d);
      slices[d].inside = slices[d].inside && slice + d < end;
    }
    __syncthreads();
    for (int i = thread; i < side * matmul_depth; i += matmul_threads) {
      const int r = deep ? i / matmul_depth : i % side, d = deep ? i % matmul_depth : i / side;
      const bool inside = row + r < a.rows && slices[d].inside;
      first[d][r] = inside ? wide(from[(row + r) * from_row + slices[d].other]) : Number(0);
      const int c = flat ? i % side : i / matmul_depth, e = flat ? i / side : i % matmul_depth;
      second[e][c] = of_weight ? gathered<Stored, transposed>(a, slices[e], columns[c])
                               : gathered<Stored, transposed>(a, columns[c], slices[e]);
    }
    __syncthreads();
    add_products(first, second, my_row, my_column, sums);
  }
  Result *result = static_cast<Result *>(of_weight ? a.weight : a.target.data);
  if (of_weight) result += part * a.groups * a.rows * taps(a);
  const Long result_row = of_weight ? a.weight_row : a.target.channel_stride;
  for (int r = 0; r < piece; r++)
    for (int c = 0; c < piece; c++) {
      const Long channel = row + my_row + r;
      const ConvolutionIndex &index = columns[my_column + c];
      if (channel >= a.rows || !index.inside) continue;
      const Number shift = a.bias && !of_weight ? at<Stored>(a.bias, group * a.rows + channel) : Number(0);
      put<Result>(result, channel * result_row + index.other, sums[r][c] + shift);
    }
}

template <class Stored, class Result, bool transposed, bool of_weight>
__device__ inline void convolution_tiles(const ConvolutionArguments &a) {
  const Long columns = of_weight ? taps(a) : places(a);
  const Long down = (a.rows + tb_matmul_side - 1) / tb_matmul_side;
  const Long right = (columns + tb_matmul_side - 1) / tb_matmul_side;
  const Long tiles = a.groups * down * right;
  for (Long tile = blockIdx.x; tile < tiles * a.parts; tile += gridDim.x) {
    const Long part = tile / tiles, group = tile % tiles / (down * right), place = tile % (down * right);
    convolution_tile<Stored, Result, transposed, of_weight>(a, group, place / right * tb_matmul_side,
                                                            place % right * tb_matmul_side, part);
  }
}

template <class Stored, bool transposed> __device__ inline void convolution(const ConvolutionArguments &a) {
  convolution_tiles<Stored, Stored, transposed, false>(a);
}
template <class Stored> __device__ inline void convolution_weight(const ConvolutionArguments &a) {
  convolution_tiles<Stored, Stored, false, true>(a);
}
// The gradients of several parts, which are then added, are not rounded to a 16-bit type.
template <class Stored> __device__ inline void convolution_weight_parts(const ConvolutionArguments &a) {
  convolution_tiles<Stored, Math<Stored>, false, true>(a);
}

// ---- groups of few channels, which would leave tiles empty --------------------------------------------------------

// A thread computes each element of the target.
template <class Stored, bool transposed> __device__ inline void convolution_narrow(const ConvolutionArguments &a) {
  using Number = Math<Stored>;
  const Long across = places(a), count = a.groups * a.rows * across;
  const bool channels_last = a.target.channel_stride == 1;
  for (Long i = first_element(); i < count; i += all_threads()) {
    const Long channel = channels_last ? i % (a.groups * a.rows) : i / across;
    const Long group = channel / a.rows, row = channel - group * a.rows;
    const ConvolutionIndex place =
        place_index<transposed>(a, group, channels_last ? i / (a.groups * a.rows) : i % across);
    Number sum = 0;
    for (Long tap = 0; tap < taps(a); tap++) {
      const ConvolutionIndex index = tap_index<transposed>(a, group, tap);
      sum = number::multiply_add(at<Stored>(a.weight, row * a.weight_row + index.other),
                                 gathered<Stored, transposed>(a, place, index), sum);
    }
    const Number shift = a.bias ? at<Stored>(a.bias, channel) : Number(0);
    put<Stored>(a.target.data, row * a.target.channel_stride + place.other, sum + shift);
  }
}

// A block computes the gradient of each number of the weight.
template <class Stored> __device__ inline void convolution_weight_narrow(const ConvolutionArguments &a) {
  const Long numbers = taps(a);
  for (Long i = blockIdx.x; i < a.groups * a.rows * numbers; i += gridDim.x) {
    const Long channel = i / numbers, group = channel / a.rows, row = channel - group * a.rows;
    const ConvolutionIndex tap = tap_index<false>(a, group, i - channel * numbers);
    Sum<Stored> sum = 0;
    for (Long j = threadIdx.x; j < places(a); j += blockDim.x) {
      const ConvolutionIndex place = place_index<false>(a, group, j);
      sum += at<Stored>(a.target.data, row * a.target.channel_stride + place.other) *
             gathered<Stored, false>(a, place, tap);
    }
    sum = sum_across_block(sum);
    if (threadIdx.x == 0) put<Stored>(a.weight, row * a.weight_row + tap.other, sum);
  }
}

} // namespace tb::kernels
