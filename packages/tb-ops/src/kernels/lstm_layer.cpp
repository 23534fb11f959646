#include "kernels/lstm_layer.h"

#if defined(__x86_64__)

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/avx512.h"
#include "kernels/sgemm.h"
#include "team.h"

namespace tb {
namespace {

constexpr int64_t gate_count = 4;

// A NaN passes.
TB_INLINE Vector clamp(Vector x, float most) { return _mm512_max_ps(all(-most), _mm512_min_ps(all(most), x)); }

// e^x = power (1 + less_one), |x| below 88.
struct Exponential {
  Vector less_one, power;
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
  return all(1) / (all(1) + fused(e.less_one, e.power, e.power));
}

TB_INLINE Vector tanh(Vector x) {
  const Exponential e = exponential(all(2) * clamp(x, 10)); // beyond it is 1 or -1
  const Vector less_one = fused(e.less_one, e.power, e.power - all(1));
  return less_one / (less_one + all(2));
}

// One step of one sequence. gates: sums on entry, the gates after. cell may be cell_before.
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

// The same backward. grad_hidden: what came from the next step. grad_cell: of the cell after, then of that before.
TB_AVX512 void step_back(int64_t hidden, const float *gates, const float *cell_before, const float *cell,
                         const float *grad_output, const float *grad_hidden, float *grad_cell, float *grad_gates) {
  const Vector one = all(1);
  for (int64_t j = 0; j < hidden; j += lanes) {
    const __mmask16 mask = first_lanes(hidden - j);
    const auto gate = [&](int64_t i) TB_AVX512 { return load(gates + i * hidden + j, mask); };
    const auto give = [&](int64_t i, Vector x) TB_AVX512 { store(grad_gates + i * hidden + j, mask, x); };
    const Vector in = gate(0), forget = gate(1), fresh = gate(2), out = gate(3), squashed = tanh(load(cell + j, mask));
    const Vector grad = load(grad_hidden + j, mask) + (grad_output ? load(grad_output + j, mask) : all(0));
    const Vector grad_c = fused(grad * out, one - squashed * squashed, load(grad_cell + j, mask));
    give(0, grad_c * fresh * (in * (one - in)));
    give(1, grad_c * load(cell_before + j, mask) * (forget * (one - forget)));
    give(2, grad_c * in * (one - fresh * fresh));
    give(3, grad * squashed * (out * (one - out)));
    store(grad_cell + j, mask, grad_c * forget);
  }
}

// to[j] = the sum of from[i * stride + j] over i below `rows`.
TB_AVX512 void sum_rows(const float *from, int64_t rows, int64_t stride, int64_t count, float *to) {
  for (int64_t j = 0; j < count; j += lanes) {
    const __mmask16 mask = first_lanes(count - j);
    Vector sum = all(0);
    for (int64_t i = 0; i < rows; i++) sum += load(from + i * stride + j, mask);
    store(to + j, mask, sum);
  }
}

// Both weights, of which every thread arranges some panels.
std::array<ArrangedFactor, 2> &arranged(const std::array<Factor<float>, 2> &weights,
                                        const std::array<int64_t, 2> &inner, const std::array<int64_t, 2> &columns) {
  static thread_local std::array<ArrangedFactor, 2> of_this_thread; // a lambda would mean its own thread's
  std::array<ArrangedFactor, 2> &factors = of_this_thread;
  for (size_t i = 0; i < 2; i++) {
    factors[i].begin(weights[i], inner[i], columns[i]);
    parallel_for(0, factors[i].panels(), 4, [&, i](int64_t first, int64_t last) { factors[i].arrange(first, last); });
  }
  return factors;
}

void copy_or_zero(const float *from, int64_t count, float *to) {
  if (from)
    std::copy_n(from, count, to);
  else
    std::fill_n(to, count, 0.0f);
}

constexpr int64_t sequences_together = 2; // that are worth reading the weights for

} // namespace

bool has_lstm_layer() { return has_sgemm(); }

double LstmLayer::nanoseconds() const {
  return product_nanoseconds(steps * batch, gate_count * hidden, inputs + hidden);
}

void LstmLayer::forward(const float *input_bias, const float *hidden_bias, float *output, float *last_hidden,
                        float *last_cell, float *gates, float *cells) const {
  const int64_t width = gate_count * hidden;
  std::vector<float> bias(static_cast<size_t>(width));
  for (int64_t i = 0; input_bias && i < width; i++) bias[static_cast<size_t>(i)] = input_bias[i] + hidden_bias[i];
  team.independent(nanoseconds(), [&] {
    const auto &factors =
        arranged({{{input_weight, inputs, true}, {hidden_weight, hidden, true}}}, {inputs, hidden}, {width, width});
    parallel_for(0, batch, sequences_together, [&](int64_t first, int64_t last) {
      const int64_t rows = last - first;
      const auto gates_of = [&](int64_t place) { return gates + (place * batch + first) * width; };
      factors[0].multiply({input + first * inputs, inputs, batch * inputs}, steps, rows,
                          {gates_of(0), width, batch * width}, false);
      const float *hidden_before = first_hidden + first * hidden, *cell_before = first_cell + first * hidden;
      for (int64_t i = 0; i < steps; i++) {
        const int64_t place = (at(i) * batch + first) * hidden;
        factors[1].multiply({hidden_before, hidden}, 1, rows, {gates_of(at(i)), width}, true);
        float *const cell = cells ? cells + place : last_cell + first * hidden;
        for (int64_t row = 0; row < rows; row++)
          step(hidden, bias.data(), cell_before + row * hidden, gates_of(at(i)) + row * width, cell + row * hidden,
               output + place + row * hidden);
        hidden_before = output + place;
        cell_before = cell;
      }
      std::copy_n(hidden_before, rows * hidden, last_hidden + first * hidden);
      if (cells) std::copy_n(cell_before, rows * hidden, last_cell + first * hidden);
    });
  });
}

void LstmGradients::backward(const LstmLayer &layer, const float *output, const float *gates_given, const float *cells,
                             const OutputGradient &grad_output, const float *grad_hidden,
                             const float *grad_cell) const {
  const int64_t steps = layer.steps, batch = layer.batch, inputs = layer.inputs, hidden = layer.hidden;
  const int64_t width = gate_count * hidden;
  const auto sequences = [&](const ArrangedFactor &by_input, const ArrangedFactor &by_hidden, int64_t first,
                             int64_t last) {
    const int64_t rows = last - first, begin = first * hidden;
    copy_or_zero(grad_hidden ? grad_hidden + begin : nullptr, rows * hidden, first_hidden + begin);
    copy_or_zero(grad_cell ? grad_cell + begin : nullptr, rows * hidden, first_cell + begin);
    for (int64_t i = steps - 1; i >= 0; i--) {
      const int64_t place = layer.at(i) * batch + first;
      const float *cell_before = i == 0 ? layer.first_cell + begin : cells + (layer.at(i - 1) * batch + first) * hidden;
      for (int64_t row = 0; row < rows; row++)
        step_back(
            hidden, gates_given + (place + row) * width, cell_before + row * hidden, cells + (place + row) * hidden,
            grad_output.data ? grad_output.data + layer.at(i) * grad_output.step + (first + row) * grad_output.sequence
                             : nullptr,
            first_hidden + begin + row * hidden, first_cell + begin + row * hidden, gates + (place + row) * width);
      by_hidden.multiply({gates + place * width, width}, 1, rows, {first_hidden + begin, hidden}, false);
    }
    if (input)
      by_input.multiply({gates + first * width, width, batch * width}, steps, rows,
                        {input + first * inputs, inputs, batch * inputs}, false);
  };
  // Of rows of the weights' gradients.
  const auto weights = [&](int64_t first, int64_t last) {
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
    if (hidden_weight) { // by the state before each step
      add_product(hidden_weight, layer.at(0), 1, layer.first_hidden, hidden, false);
      add_product(hidden_weight, layer.reversed ? 0 : 1, steps - 1, output + (layer.reversed ? batch * hidden : 0),
                  hidden, true);
    }
    if (bias) sum_rows(gates + first, steps * batch, width, last - first, bias + first);
  };
  team.independent(2 * layer.nanoseconds(), [&] {
    const auto &factors = arranged({{{layer.input_weight, inputs}, {layer.hidden_weight, hidden}}}, {width, width},
                                   {input ? inputs : 0, hidden});
    parallel_for(0, batch, sequences_together,
                 [&](int64_t first, int64_t last) { sequences(factors[0], factors[1], first, last); });
    constexpr int64_t line = 16; // rows of one tile, or elements of one line of a cache
    parallel_for(0, (width + line - 1) / line, 2,
                 [&](int64_t first, int64_t last) { weights(first * line, std::min(last * line, width)); });
  });
}

} // namespace tb

#else

namespace tb {
bool has_lstm_layer() { return false; }
double LstmLayer::nanoseconds() const { return 0; }
void LstmLayer::forward(const float *, const float *, float *, float *, float *, float *, float *) const {}
void LstmGradients::backward(const LstmLayer &, const float *, const float *, const float *, const OutputGradient &,
                             const float *, const float *) const {}
} // namespace tb

#endif
