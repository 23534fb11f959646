// One layer of an LSTM in one direction, in single precision with AVX-512.
//
// oneDNN's layers, which PyTorch runs on the CPU, divide the GEMM of each step among the threads and synchronize after it.
// The sequences of a batch are independent, so here each thread takes some of them through all steps. The result
// therefore does not depend on the number of threads. It is not bit-identical to oneDNN's, which adds in another order;
// the tests hold its error to that of PyTorch's.
#pragma once
#include <cstdint>

#include "microkernels/parallel.h"

namespace tb::ops::microkernels {

// Whether this processor has AVX-512. The other functions of this header require it.
bool has_lstm();

// All matrices are dense. Rows of 4 hidden hold the gates in this order: input, forget, cell, output.
struct LstmLayer {
  int64_t steps, batch, inputs, hidden;
  bool reversed;                          // from the last step to the first
  const float *input;                     // steps x batch x inputs
  const float *input_weight;              // 4 hidden x inputs
  const float *hidden_weight;             // 4 hidden x hidden
  const float *first_hidden, *first_cell; // batch x hidden

  // The time of the i-th step that is computed.
  int64_t time(int64_t i) const { return reversed ? steps - 1 - i : i; }
  // An estimate for the forward pass on one thread; the backward pass takes twice as long.
  double nanoseconds() const;

  // The biases have 4 hidden elements, or both are null. Writes output (steps x batch x hidden), last_hidden and last_cell
  // (batch x hidden) and, for the backward pass, gates (steps x batch x 4 hidden) and, unless it is null, cells (as output).
  void forward(const ParallelLoop &loop, const float *input_bias, const float *hidden_bias, float *output,
               float *last_hidden, float *last_cell, float *gates, float *cells) const;
};

// The gradient of an output, steps x batch x hidden, and its strides from a step, and from a sequence, to the next. A null
// pointer means zeros.
struct OutputGradient {
  const float *data = nullptr;
  int64_t step = 0, sequence = 0;
};

struct LstmGradients {
  float *input, *input_weight, *hidden_weight, *bias; // null if not wanted; `bias` is the gradient of either bias
  float *first_hidden, *first_cell;
  float *gates; // a buffer of steps x batch x 4 hidden

  // Computes the gradients from the results of forward(). grad_hidden and grad_cell are the gradients of last_hidden and
  // last_cell; null means zeros.
  void backward(const ParallelLoop &loop, const LstmLayer &layer, const float *output, const float *gates,
                const float *cells, const OutputGradient &grad_output, const float *grad_hidden,
                const float *grad_cell) const;
};

} // namespace tb::ops::microkernels
