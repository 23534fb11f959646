#include "microkernels/lstm.h"

#if defined(__x86_64__)

#include <algorithm>
#include <array>
#include <vector>

#include "microkernels/avx512.h"
#include "microkernels/sgemm.h"

namespace tb::ops::microkernels {
namespace {

constexpr int64_t gate_count = 4;

// A NaN stays a NaN.
TB_INLINE Vector clamp(Vector x, float most) { return _mm512_max_ps(all(-most), _mm512_min_ps(all(most), x)); }

// e^x = power (1 + expm1), for |x| below 88.
struct Exponential {
  Vector expm1, power;
};
TB_INLINE Exponential exponential(Vector x) {
  const Vector n = _mm512_roundscale_ps(x * all(0x1.715476p+0f), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const Vector r = fused(-n, all(0x1.7f7d1cp-20f), fused(-n, all(0x1.62e400p-1f), x));
  // Coefficients: `python tools/checks/polynomials.py`, exp of float32.
  Vector p = fused(all(0x1.6db414p-10f), r, all(0x1.123b46p-7f));
  p = fused(fused(fused(p, r, all(0x1.55545ep-5f)), r, all(0x1.55549p-3f)), r, all(0x1p-1f));
  return {fused(r * r, p, r), _mm512_scalef_ps(all(1), n)};
}

TB_INLINE Vector sigmoid(Vector x) {
  const Exponential e = exponential(clamp(-x, 87));
  return all(1) / (all(1) + fused(e.expm1, e.power, e.power));
}

TB_INLINE Vector tanh(Vector x) {
  const Exponential e = exponential(all(2) * clamp(x, 10)); // tanh is 1 or -1 in float beyond 10
  const Vector expm1 = fused(e.expm1, e.power, e.power - all(1));
  return expm1 / (expm1 + all(2));
}

// One step of one sequence. `gates` holds the sums on entry and the gates on return. `cell` may be `cell_before`.
TB_AVX512 void step(int64_t hidden, const float *bias, const float *cell_before, float *gates, float *cell,
                    float *output) {
  for (int64_t j = 0; j < hidden; j += lanes) {
    const __mmask16 mask = first_lanes(hidden - j);
    Vector gate[gate_count];
    for (int64_t i = 0; i < gate_count; i++)
      gate[i] = load(gates + i * hidden + j, mask) + load(bias + i * hidden + j, mask);
    const Vector in = sigmoid(gate[0]), forget = sigmoid(gate[1]), fresh = tanh(gate[2]), out = sigmoid(gate[3]);
    const Vector c = fused(forget, load(cell_before + j, mask), in * fresh);
    store(gates + j, mask, in);
    store(gates + hidden + j, mask, forget);
    store(gates + 2 * hidden + j, mask, fresh);
    store(gates + 3 * hidden + j, mask, out);
    store(cell + j, mask, c);
    store(output + j, mask, out * tanh(c));
  }
}

// The backward pass of one step. `grad_hidden` is the gradient from the next step; `grad_cell` is the gradient of the cell
// after the step on entry and of the cell before it on return.
TB_AVX512 void step_back(int64_t hidden, const float *gates, const float *cell_before, const float *cell,
                         const float *grad_output, const float *grad_hidden, float *grad_cell, float *grad_gates) {
  const Vector one = all(1);
  for (int64_t j = 0; j < hidden; j += lanes) {
    const __mmask16 mask = first_lanes(hidden - j);
    const auto gate = [&](int64_t i) TB_AVX512 { return load(gates + i * hidden + j, mask); };
    const auto store_gate = [&](int64_t i, Vector x) TB_AVX512 { store(grad_gates + i * hidden + j, mask, x); };
    const Vector in = gate(0), forget = gate(1), fresh = gate(2), out = gate(3), squashed = tanh(load(cell + j, mask));
    const Vector grad = load(grad_hidden + j, mask) + (grad_output ? load(grad_output + j, mask) : all(0));
    const Vector grad_c = fused(grad * out, one - squashed * squashed, load(grad_cell + j, mask));
    store_gate(0, grad_c * fresh * (in * (one - in)));
    store_gate(1, grad_c * load(cell_before + j, mask) * (forget * (one - forget)));
    store_gate(2, grad_c * in * (one - fresh * fresh));
    store_gate(3, grad * squashed * (out * (one - out)));
    store(grad_cell + j, mask, grad_c * forget);
  }
}

// to[j] is the sum of from[i * stride + j] over i below `rows`.
TB_AVX512 void sum_rows(const float *from, int64_t rows, int64_t stride, int64_t count, float *to) {
  for (int64_t j = 0; j < count; j += lanes) {
    const __mmask16 mask = first_lanes(count - j);
    Vector sum = all(0);
    for (int64_t i = 0; i < rows; i++) sum += load(from + i * stride + j, mask);
    store(to + j, mask, sum);
  }
}

// Packs both weights; the threads share the panels.
std::array<PackedOperand, 2> &packed(const ParallelLoop &loop, const std::array<Operand<float>, 2> &weights,
                                     const std::array<int64_t, 2> &k, const std::array<int64_t, 2> &columns) {
  static thread_local std::array<PackedOperand, 2> of_this_thread;
  std::array<PackedOperand, 2> &operands = of_this_thread; // the loop's threads have a thread_local of their own
  for (size_t i = 0; i < 2; i++) {
    operands[i].begin(weights[i], k[i], columns[i]);
    loop(operands[i].panels(), 4, [&, i](int64_t first, int64_t last) { operands[i].pack(first, last); });
  }
  return operands;
}

void copy_or_zero(const float *from, int64_t count, float *to) {
  if (from)
    std::copy_n(from, count, to);
  else
    std::fill_n(to, count, 0.0f);
}

constexpr int64_t least_sequences = 2; // that a thread takes: fewer are not worth reading the weights

} // namespace

bool has_lstm() { return has_sgemm(); }

double LstmLayer::nanoseconds() const { return gemm_nanoseconds(steps * batch, gate_count * hidden, inputs + hidden); }

void LstmLayer::forward(const ParallelLoop &loop, const float *input_bias, const float *hidden_bias, float *output,
                        float *last_hidden, float *last_cell, float *gates, float *cells) const {
  const int64_t width = gate_count * hidden;
  std::vector<float> bias(static_cast<size_t>(width));
  for (int64_t i = 0; input_bias && i < width; i++) bias[static_cast<size_t>(i)] = input_bias[i] + hidden_bias[i];
  const auto &weights =
      packed(loop, {{{input_weight, inputs, true}, {hidden_weight, hidden, true}}}, {inputs, hidden}, {width, width});
  loop(batch, least_sequences, [&](int64_t first, int64_t last) {
    const int64_t rows = last - first;
    const auto gates_of = [&](int64_t place) { return gates + (place * batch + first) * width; };
    weights[0].multiply({input + first * inputs, inputs, batch * inputs}, steps, rows,
                        {gates_of(0), width, batch * width}, false);
    const float *hidden_before = first_hidden + first * hidden, *cell_before = first_cell + first * hidden;
    for (int64_t i = 0; i < steps; i++) {
      const int64_t place = (time(i) * batch + first) * hidden;
      weights[1].multiply({hidden_before, hidden}, 1, rows, {gates_of(time(i)), width}, true);
      float *const cell = cells ? cells + place : last_cell + first * hidden;
      for (int64_t row = 0; row < rows; row++)
        step(hidden, bias.data(), cell_before + row * hidden, gates_of(time(i)) + row * width, cell + row * hidden,
             output + place + row * hidden);
      hidden_before = output + place;
      cell_before = cell;
    }
    std::copy_n(hidden_before, rows * hidden, last_hidden + first * hidden);
    if (cells) std::copy_n(cell_before, rows * hidden, last_cell + first * hidden);
  });
}

void LstmGradients::backward(const ParallelLoop &loop, const LstmLayer &layer, const float *output,
                             const float *gates_given, const float *cells, const OutputGradient &grad_output,
                             const float *grad_hidden, const float *grad_cell) const {
  const int64_t steps = layer.steps, batch = layer.batch, inputs = layer.inputs, hidden = layer.hidden;
  const int64_t width = gate_count * hidden;
  const auto sequences = [&](const PackedOperand &by_input, const PackedOperand &by_hidden, int64_t first,
                             int64_t last) {
    const int64_t rows = last - first, begin = first * hidden;
    copy_or_zero(grad_hidden ? grad_hidden + begin : nullptr, rows * hidden, first_hidden + begin);
    copy_or_zero(grad_cell ? grad_cell + begin : nullptr, rows * hidden, first_cell + begin);
    for (int64_t i = steps - 1; i >= 0; i--) {
      const int64_t place = layer.time(i) * batch + first;
      const float *cell_before =
          i == 0 ? layer.first_cell + begin : cells + (layer.time(i - 1) * batch + first) * hidden;
      for (int64_t row = 0; row < rows; row++)
        step_back(
            hidden, gates_given + (place + row) * width, cell_before + row * hidden, cells + (place + row) * hidden,
            grad_output.data
                ? grad_output.data + layer.time(i) * grad_output.step + (first + row) * grad_output.sequence
                : nullptr,
            first_hidden + begin + row * hidden, first_cell + begin + row * hidden, gates + (place + row) * width);
      by_hidden.multiply({gates + place * width, width}, 1, rows, {first_hidden + begin, hidden}, false);
    }
    if (input)
      by_input.multiply({gates + first * width, width, batch * width}, steps, rows,
                        {input + first * inputs, inputs, batch * inputs}, false);
  };
  // Rows [first, last) of the gradients of the weights and of the bias.
  const auto weight_gradients = [&](int64_t first, int64_t last) {
    const auto add_product = [&](float *to, int64_t place, int64_t rows, const float *right, int64_t columns,
                                 bool add) {
      if (rows > 0)
        sgemm({last - first,
               columns,
               rows * batch,
               {gates + place * batch * width + first, width, true},
               {right, columns},
               to + first * columns,
               columns,
               add});
    };
    if (input_weight) add_product(input_weight, 0, steps, layer.input, inputs, false);
    if (hidden_weight) { // its right operand is the state before each step
      add_product(hidden_weight, layer.time(0), 1, layer.first_hidden, hidden, false);
      add_product(hidden_weight, layer.reversed ? 0 : 1, steps - 1, output + (layer.reversed ? batch * hidden : 0),
                  hidden, true);
    }
    if (bias) sum_rows(gates + first, steps * batch, width, last - first, bias + first);
  };
  const auto &weights = packed(loop, {{{layer.input_weight, inputs}, {layer.hidden_weight, hidden}}}, {width, width},
                               {input ? inputs : 0, hidden});
  loop(batch, least_sequences, [&](int64_t first, int64_t last) { sequences(weights[0], weights[1], first, last); });
  constexpr int64_t line = 16; // elements of a cache line, and about the rows of a tile
  loop((width + line - 1) / line, 2,
       [&](int64_t first, int64_t last) { weight_gradients(first * line, std::min(last * line, width)); });
}

} // namespace tb::ops::microkernels

#else

namespace tb::ops::microkernels {
bool has_lstm() { return false; }
double LstmLayer::nanoseconds() const { return 0; }
void LstmLayer::forward(const ParallelLoop &, const float *, const float *, float *, float *, float *, float *,
                        float *) const {}
void LstmGradients::backward(const ParallelLoop &, const LstmLayer &, const float *, const float *, const float *,
                             const OutputGradient &, const float *, const float *) const {}
} // namespace tb::ops::microkernels

#endif
