// One layer of an LSTM in one direction, in float, on processors with AVX-512.
//
// oneDNN's layers, which stock CPU runs, let all threads make each step's product, and meet after it. Sequences of a
// batch have nothing to do with each other: here each thread takes some of them through all steps. So the bits depend on
// nothing but the numbers. They are not oneDNN's, which adds up in another order; tests/ops/test_lstm.py compares the
// errors.
#pragma once
#include <cstdint>

namespace tb {

bool has_lstm_layer(); // whether this processor can

// All matrices are dense. Blocks of 4 hidden belong to the gates: input, forget, cell, output.
struct LstmLayer {
  int64_t steps, batch, inputs, hidden;
  bool reversed;                          // in time
  const float *input;                     // steps x batch x inputs
  const float *input_weight;              // 4 hidden x inputs
  const float *hidden_weight;             // 4 hidden x hidden
  const float *first_hidden, *first_cell; // batch x hidden

  // Its way of time: the place of step i, of which 0 is the first that is computed.
  int64_t at(int64_t i) const { return reversed ? steps - 1 - i : i; }
  // Of the forward pass, on one thread; backward takes twice as long.
  double nanoseconds() const;

  // biases: 4 hidden, or NULL both. output: steps x batch x hidden. last_hidden, last_cell: batch x hidden. For the
  // backward pass remain gates: steps x batch x 4 hidden, and, unless NULL, cells: as output.
  void forward(const float *input_bias, const float *hidden_bias, float *output, float *last_hidden, float *last_cell,
               float *gates, float *cells) const;
};

// The gradient of an output, steps x batch x hidden: elements from a step, and from a sequence, to the next. NULL: 0.
struct OutputGradient {
  const float *data = nullptr;
  int64_t step = 0, sequence = 0;
};

struct LstmGradients {
  float *input, *input_weight, *hidden_weight, *bias; // as what they are of; NULL: not wanted. One bias for both
  float *first_hidden, *first_cell;
  float *gates; // steps x batch x 4 hidden, for the time being

  // From what forward() gave. last_hidden and last_cell: gradients, or NULL for 0.
  void backward(const LstmLayer &layer, const float *output, const float *gates, const float *cells,
                const OutputGradient &grad_output, const float *grad_hidden, const float *grad_cell) const;
};

} // namespace tb
