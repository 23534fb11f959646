// The cells of LSTM and GRU, forward and backward. A thread computes one unit of one row.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

template <class Number> __device__ inline Number sigmoid_of(Number x) {
  return Number(1) / (Number(1) + number::exp(-x));
}

// Returns a block's element of the input's or the hidden state's part of the gates, with its bias.
template <class Stored>
__device__ inline Math<Stored> gate_part(const void *gates, const void *bias, Long row, Long column, Long columns) {
  const Math<Stored> gate = at<Stored>(gates, row * columns + column);
  return bias ? gate + at<Stored>(bias, column) : gate;
}

// The workspace keeps the gates after their nonlinearities: in, forget, cell, out.
template <class Stored> __device__ inline void lstm_cell(const CellArguments &a) {
  using Number = Math<Stored>;
  for (Long i = first_element(); i < a.rows * a.size; i += all_threads()) {
    const Long row = i / a.size, unit = i % a.size, columns = 4 * a.size;
    Number gates[4];
    for (int k = 0; k < 4; k++) {
      const Long column = k * a.size + unit;
      const Number sum = gate_part<Stored>(a.input, a.input_bias, row, column, columns) +
                         gate_part<Stored>(a.hidden, a.hidden_bias, row, column, columns);
      gates[k] = k == 2 ? number::tanh(sum) : sigmoid_of(sum);
      put<Stored>(a.workspace, row * columns + column, gates[k]);
    }
    const Number cell = gates[1] * at<Stored>(a.state, i) + gates[0] * gates[2];
    put<Stored>(a.cell, i, cell);
    put<Stored>(a.output, i, gates[3] * number::tanh(cell));
  }
}

template <class Stored> __device__ inline void lstm_cell_backward(const CellGradArguments &a) {
  using Number = Math<Stored>;
  for (Long i = first_element(); i < a.rows * a.size; i += all_threads()) {
    const Long first = i / a.size * 4 * a.size + i % a.size;
    Number gates[4];
    for (int k = 0; k < 4; k++) gates[k] = at<Stored>(a.workspace, first + k * a.size);
    const Number squashed = number::tanh(at<Stored>(a.cell, i)), one = Number(1);
    const Number grad = a.grad ? at<Stored>(a.grad, i) : Number(0);
    const Number grad_cell =
        grad * gates[3] * (one - squashed * squashed) + (a.grad_cell ? at<Stored>(a.grad_cell, i) : Number(0));
    const Number before = at<Stored>(a.state, i);
    put<Stored>(a.grad_input, first, grad_cell * gates[2] * (one - gates[0]) * gates[0]);
    put<Stored>(a.grad_input, first + a.size, grad_cell * before * (one - gates[1]) * gates[1]);
    put<Stored>(a.grad_input, first + 2 * a.size, grad_cell * gates[0] * (one - gates[2] * gates[2]));
    put<Stored>(a.grad_input, first + 3 * a.size, grad * squashed * (one - gates[3]) * gates[3]);
    put<Stored>(a.grad_state, i, grad_cell * gates[1]);
  }
}

// The workspace keeps reset, update and new gate, the old state, and the new gate's hidden part.
template <class Stored> __device__ inline void gru_cell(const CellArguments &a) {
  using Number = Math<Stored>;
  for (Long i = first_element(); i < a.rows * a.size; i += all_threads()) {
    const Long row = i / a.size, unit = i % a.size, columns = 3 * a.size;
    Number input[3], hidden[3];
    for (int k = 0; k < 3; k++) {
      input[k] = gate_part<Stored>(a.input, a.input_bias, row, k * a.size + unit, columns);
      hidden[k] = gate_part<Stored>(a.hidden, a.hidden_bias, row, k * a.size + unit, columns);
    }
    const Number reset = sigmoid_of(input[0] + hidden[0]), update = sigmoid_of(input[1] + hidden[1]);
    const Number fresh = number::tanh(input[2] + hidden[2] * reset), state = at<Stored>(a.state, i);
    put<Stored>(a.output, i, (state - fresh) * update + fresh);
    const Number kept[5] = {reset, update, fresh, state, hidden[2]};
    for (int k = 0; k < 5; k++) put<Stored>(a.workspace, (row * 5 + k) * a.size + unit, kept[k]);
  }
}

template <class Stored> __device__ inline void gru_cell_backward(const CellGradArguments &a) {
  using Number = Math<Stored>;
  for (Long i = first_element(); i < a.rows * a.size; i += all_threads()) {
    const Long row = i / a.size, unit = i % a.size, first = row * 3 * a.size + unit;
    Number kept[5];
    for (int k = 0; k < 5; k++) kept[k] = at<Stored>(a.workspace, (row * 5 + k) * a.size + unit);
    const Number reset = kept[0], update = kept[1], fresh = kept[2], one = Number(1), grad = at<Stored>(a.grad, i);
    const Number grad_update = grad * (kept[3] - fresh) * (one - update) * update;
    const Number grad_fresh = grad * (one - update) * (one - fresh * fresh);
    const Number grad_reset = grad_fresh * kept[4] * (one - reset) * reset;
    put<Stored>(a.grad_input, first, grad_reset);
    put<Stored>(a.grad_hidden, first, grad_reset);
    put<Stored>(a.grad_input, first + a.size, grad_update);
    put<Stored>(a.grad_hidden, first + a.size, grad_update);
    put<Stored>(a.grad_input, first + 2 * a.size, grad_fresh);
    put<Stored>(a.grad_hidden, first + 2 * a.size, grad_fresh * reset);
    put<Stored>(a.grad_state, i, grad * update);
  }
}

} // namespace tb::kernels
