// What the host hands to a kernel: one plain struct each, laid out the same by every compiler. Included by tb-ops and by
// the kernels; no header of either side, since compilers at run time have none.
#pragma once

namespace tb::kernels {

using Long = long long; // 64 bits wherever this runs
using Unsigned = unsigned long long;

// How an element is stored. Host and kernels know types by these numbers; language.cuh and element_type.cpp list them.
enum Type : int { Bool, UInt8, Int8, Int16, Int32, Int64, Float16, BFloat16, Float32, Float64 };

constexpr int max_dims = 10, max_operands = 5, max_scalars = 4;

// A number in both forms: kernels of integers must not lose digits.
struct Scalar {
  double real;
  Long integer;
};

struct Operand {
  void *data; // null: the number `value` instead of a tensor
  int type;
  int reserved;
};

// Elementwise: operand 0 is the output. Strides are bytes; dimension 0 moves fastest.
struct PointwiseArguments {
  Long count;
  int dims, reserved;
  Operand operands[max_operands];
  Scalar value; // of the operand without data
  Scalar scalars[max_scalars];
  Long sizes[max_dims];
  Long strides[max_operands][max_dims];
};

// outputs x reduced elements; output number i is element i of contiguous outputs.
struct ReduceArguments {
  Long outputs, reduced;
  int kept_dims, reduced_dims;
  Operand input, output, second; // second: places of extrema
  Scalar scalars[max_scalars];
  Long kept_sizes[max_dims], kept_strides[max_dims]; // strides in bytes, dimension 0 moves fastest
  Long reduced_sizes[max_dims], reduced_strides[max_dims];
};

// Contiguous outer x size x inner; a row is (outer, :, inner). softmax: input, output. Backward: grad, output of the
// forward, gradient of the input.
struct RowArguments {
  Long outer, size, inner;
  Operand first, second, result;
};

// Contiguous rows x size.
struct LayerNormArguments {
  Long rows, size;
  const void *input, *weight, *bias, *grad;
  void *mean, *rstd, *output; // mean and rstd in the type that the kernel computes in
  void *grad_weight, *grad_bias;
  double epsilon;
};

// out[b] = alpha * first[b] @ second[b] + beta * added[b]; strides in elements, batch, row, column.
struct MatmulArguments {
  Long batch, rows, columns, depth;
  const void *first, *second, *added; // added: null for none
  void *output;
  Long first_strides[3], second_strides[3], added_strides[3], output_strides[3];
  Scalar alpha, beta;
};

// One element for each of `index`, at most max_dims dimensions; strides in elements, dimension 0 moves fastest.
struct IndexArguments {
  Long count, limit; // limit: places 0 to limit - 1 (negative ones only where `wrap`)
  int dims, dim;     // dim: where the index takes the place of the coordinate; in the order of `sizes`
  const Long *index;
  void *indexed; // gathered from, or scattered to
  void *other;   // contiguous result of a gather; source of a scatter, null: `value`
  Scalar value;
  Long sizes[max_dims], index_strides[max_dims], indexed_strides[max_dims], other_strides[max_dims];
};

// Contiguous outer x `places` x inner; the index has `count` elements.
struct SelectArguments {
  Long outer, count, inner, places;
  const void *index; // Int64 or Int32
  int index_type, reserved;
  const void *source;
  void *result;
  Long skipped; // this index adds nothing (padding of embeddings); -1: none
};

struct LossArguments {
  Long rows, classes, ignored;
  int reduction, reserved; // 0 none, 1 mean, 2 sum
  const void *input;       // rows x classes; backward: the gradient of the loss
  Long grad_stride;        // of that gradient where nothing was reduced
  const Long *target;
  const void *weight; // null: all 1
  void *output, *total_weight;
};

// Contiguous fill from the counter-based generator; fields as tb-generator's fills have them.
struct RandomArguments {
  Long count;
  void *output, *mask; // mask: dropout's
  const void *input;   // dropout's
  Unsigned seed, offset;
  double from, width, low, high; // uniform: bounds of the rounded values; normal: from is the mean, width the deviation
  Unsigned start, range;         // integers; bernoulli: range is the threshold of 2^32
  double scale;                  // dropout's
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
  Scalar start, step;
};

constexpr int max_tensors = 24; // of one launch; with their pointers the struct stays below 2 KiB

// One step of an optimizer for several parameters; contiguous or equally laid out.
struct OptimizerArguments {
  int tensors, flags;
  Long counts[max_tensors];
  void *parameters[max_tensors];
  void *gradients[max_tensors];
  void *first[max_tensors];  // average of gradients, momentum
  void *second[max_tensors]; // average of their squares
  void *maxima[max_tensors]; // of amsgrad
  const float *steps[max_tensors];
  double rate, beta1, beta2, decay, epsilon;
  const float *grad_scale, *found_inf; // null: none
};

enum OptimizerFlags : int { maximize = 1, nesterov = 2, first_step = 4, decoupled = 8 };

} // namespace tb::kernels
