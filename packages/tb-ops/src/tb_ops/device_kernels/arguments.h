// The arguments of the kernels: one plain struct each, which every compiler lays out the same. tb-ops and the kernels
// include this file. It includes no header, since compilers at run time have none.
#pragma once

namespace tb::kernels {

using Long = long long; // 64 bits wherever this runs
using Unsigned = unsigned long long;

// How an element is stored. Host and kernels know types by these numbers; types.cuh and element_type.cpp list them.
enum Type : int { Bool, UInt8, Int8, Int16, Int32, Int64, Float16, BFloat16, Float32, Float64 };

// What a check that fails says, with the numbers of tb_status: PyTorch raises an IndexError, or a RuntimeError.
enum Refused : int { index_out_of_range = 11, invalid_value = 9 };

// A number of the host, which kernels read with number_of. Those for devices without 64-bit floats take its bits apart,
// so the structs are the same for all devices.
#if defined(TB_NO_FLOAT64)
struct Real {
  Unsigned bits;
};
#else
using Real = double;
#endif

// Bytes of every struct here. OpenCL guarantees 1,024 for a launch, of which a driver may use some itself.
constexpr int max_argument_size = 1000;

constexpr int max_dims = 10, max_operands = 5, max_scalars = 4;

// A number in both forms, so that kernels of integers lose no digits.
struct Scalar {
  Real real;
  Long integer;
};

struct Operand {
  void *data; // null if the operand is the number `value` instead of a tensor
  int type;
  int reserved;
};

// Elementwise kernels. Operand 0 is the output. Strides are in bytes; dimension 0 is the fastest.
struct PointwiseArguments {
  Long count;
  int dims, reserved;
  Operand operands[max_operands];
  Scalar value; // of the operand without data
  Scalar scalars[max_scalars];
  Long sizes[max_dims];
  Long strides[max_operands][max_dims];
};

// The input has outputs x reduced elements. The outputs are contiguous.
struct ReduceArguments {
  Long outputs, reduced;
  int kept_dims, reduced_dims;
  Operand input, output, second; // second has the places of extrema
  Scalar scalars[max_scalars];
  Long kept_sizes[max_dims], kept_strides[max_dims]; // strides in bytes; dimension 0 is the fastest
  Long reduced_sizes[max_dims], reduced_strides[max_dims];
};

// Contiguous tensors of outer x size x inner; a row is (outer, :, inner). softmax has `first` as input and `result` as
// output. softmax_backward has the gradient, the output of the forward pass, and the gradient of the input.
struct RowArguments {
  Long outer, size, inner;
  Operand first, second, result;
};

// Contiguous tensors of rows x size.
struct LayerNormArguments {
  Long rows, size;
  const void *input, *weight, *bias, *grad;
  void *mean, *rstd, *output; // mean and rstd in the type that the kernel computes in
  void *grad_weight, *grad_bias;
  Real epsilon;
};

// output[b] = alpha * first[b] @ second[b] + beta * added[b]. Strides are in elements, of batch, row and column.
struct MatmulArguments {
  Long batch, rows, columns, depth;
  const void *first, *second, *added; // `added` may be null
  void *output;
  Long first_strides[3], second_strides[3], added_strides[3], output_strides[3];
  Scalar alpha, beta;
  int vector_size, reserved; // of the device, for kernels that compute with vectors
};

// One element for each element of `index`, which has at most max_dims dimensions. Strides are in elements; dimension 0
// is the fastest.
struct IndexArguments {
  Long count, limit; // an index is from 0 to limit - 1
  int dims, dim;     // the index replaces the coordinate of dimension `dim`, in the order of `sizes`
  const Long *index;
  void *indexed; // gathered from, or scattered to
  void *other;   // result of a gather, or source of a scatter; null if that is `value`
  Scalar value;
  Long sizes[max_dims], index_strides[max_dims], indexed_strides[max_dims], other_strides[max_dims];
};

constexpr int max_indices = 6;

// One element for each element of `plain`, the operand that has the shape of the result, and of the indices. Strides
// are in bytes; dimension 0 is the fastest. The indexed dimensions have the stride 0 among `indexed_strides`.
struct AdvancedIndexArguments {
  Long count;
  int dims, indices;
  void *plain, *indexed;
  const void *index[max_indices]; // of Int64
  Long sizes[max_dims], plain_strides[max_dims], indexed_strides[max_dims], index_strides[max_indices][max_dims];
  Long limits[max_indices], steps[max_indices]; // sizes and strides of the indexed dimensions
};

// A contiguous tensor of outer x `places` x inner, and an index of `count` elements.
struct SelectArguments {
  Long outer, count, inner, places;
  const void *index; // Int64 or Int32
  int index_type, reserved;
  const void *source;
  void *result;
  Long skipped; // this index adds nothing (padding of embeddings); -1 for none
  Scalar value; // written if `source` is null
};

// Contiguous states of rows x size. Gates have a block of `size` columns for each gate.
struct CellArguments {
  Long rows, size;
  const void *input, *hidden, *state, *input_bias, *hidden_bias; // the biases may be null
  void *output, *cell, *workspace;
};

// In an LSTM `state` and `cell` are the cell's states before and after, and grad_input is the gradient of all gates. A
// GRU has no cell, and gradients of both parts of its gates.
struct CellGradArguments {
  Long rows, size;
  const void *grad, *grad_cell, *state, *cell, *workspace; // one of the gradients may be null
  void *grad_input, *grad_hidden, *grad_state;
};

constexpr int sort_tile = 1024; // elements that a block sorts in shared memory

// Contiguous tensors of rows x size.
struct SortArguments {
  Long rows, size;
  Long kept, kept_of_row; // elements of the output for each full tile, and for each row
  Long width;             // of the sorted runs that are merged
  const void *input;
  const Long *input_places; // null if the elements are in their first places
  void *output;
  Long *output_places;
  int descending, reserved;
};

// Contiguous tensors of outer x size x inner; a row is (outer, :, inner), and has `chunks` chunks.
struct ScanArguments {
  Long outer, size, inner, chunk, chunks;
  const void *input;
  void *output;
  Long *places;  // of extrema
  void *carries; // a scanner's state for each chunk; null if there is one chunk
};

struct CompactArguments {
  Long count, limit; // the limit is of the elements that are distributed, or the number of those that are chosen
  const Long *counts;
  const void *input;
  void *output;
  int dims, reserved;
  Long sizes[max_dims];
};

// Contiguous values, and contiguous rows of `size` boundaries: one for all values, or one for each row of values.
struct SearchArguments {
  Long count, values_of_row, size;
  const void *values, *boundaries;
  const Long *order; // null if the boundaries are sorted; else the places of the sorted ones
  void *output;
  int right, shared;
};

struct LossArguments {
  Long rows, classes, ignored;
  int reduction, reserved; // 0 none, 1 mean, 2 sum
  const void *input;       // rows x classes; in the backward pass the gradient of the loss
  Long grad_stride;        // of that gradient, if nothing was reduced
  const Long *target;
  const void *weight; // null if all are 1
  void *output, *total_weight;
};

// A contiguous fill from the counter-based generator. The fields are those of tb-generator's fills.
struct RandomArguments {
  Long count;
  void *output, *mask; // the mask is dropout's
  const void *input;   // dropout's
  Unsigned seed, offset;
  Real from, width, low, high; // uniform: low and high bound the result; normal: mean, and deviation * sqrt(2)
  Unsigned start, range;       // of integers; in bernoulli and dropout `range` is the threshold
  Real scale;                  // dropout's
};

struct TriangleArguments {
  Long batch, rows, columns, diagonal;
  const void *input;
  void *output;
  int upper, reserved;
};

struct RangeArguments {
  Long count;
  void *output;
  Scalar start, step, end;
};

struct AssertionArguments {
  Operand value;
};

// ---- tensors of batch x channels x space --------------------------------------------------------------------------

// A tensor of batch x channels x three spatial dimensions, the fastest last. A tensor with fewer spatial dimensions has
// the size 1 in the first ones. Strides are in elements.
struct Volume {
  void *data;
  Long batch, channels, sizes[3];
  Long batch_stride, channel_stride, strides[3];
};

// A convolution that reads `source` around each place of `target`. A group has `rows` channels of the target and
// `depth` channels of the source. The strides of the weight are in elements.
struct ConvolutionArguments {
  Long groups, rows, depth;
  Volume source, target;
  void *weight;
  Long weight_group, weight_row, weight_depth, weight_strides[3];
  const void *bias; // one number for each channel of the target, or null
  Long parts;       // of the places, which have a gradient of the weight each, one behind the other
  Long kernel[3], stride[3], padding[3], dilation[3];
};

// The input and the output of a forward pass; a backward pass has their gradients there.
struct PoolArguments {
  Volume input, output, indices; // the indices, of Int64, are those of max pooling
  Long kernel[3], stride[3], padding[3], dilation[3];
  Long divisor;         // of an average; 0 for the number of elements in the window
  int padded, reserved; // whether that number counts the padding
};

// The input and the output of a forward pass; a backward pass has their gradients there.
struct UpsampleArguments {
  Volume input, output;
  Real scales[3]; // distances in the input between neighbours of the output
  int align_corners, dimensions;
};

// A tensor of batch x channels x space. Strides are in elements.
struct ChannelRows {
  void *data;
  Long batch_stride, channel_stride, stride;
};

// Batch normalisation has statistics of a channel; group normalisation has statistics of a sample and a group of
// `group` channels. Vectors are contiguous.
struct ChannelNormArguments {
  Long batch, channels, space;
  Long group; // 0 for batch normalisation
  ChannelRows input, output, grad;
  const void *weight, *bias; // may be null
  void *mean, *rstd, *running_mean, *running_variance;
  void *sums, *products; // of gradients, and of their products with the normalised input; may be null
  Real epsilon, momentum;
  int from_running, by_group; // statistics are the running ones; sums are those of groups, with the weight
};

// ---- optimizers -----------------------------------------------------------------------------------------------

constexpr int max_tensors = 16; // of one launch, as many as max_argument_size allows

// One step of an optimizer for several parameters. The tensors of a parameter have no gaps and equal strides.
struct OptimizerArguments {
  int tensors, flags;
  Long counts[max_tensors];
  void *parameters[max_tensors];
  void *gradients[max_tensors];
  void *first[max_tensors];  // average of gradients, momentum
  void *second[max_tensors]; // average of the gradients' squares
  void *maxima[max_tensors]; // of amsgrad
  const float *steps[max_tensors];
  Real rate, beta1, beta2, decay, epsilon;
  const float *grad_scale, *found_inf; // may be null
};

enum OptimizerFlags : int { maximize = 1, nesterov = 2, first_step = 4, decoupled = 8 };

} // namespace tb::kernels
