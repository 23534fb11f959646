// nn.LSTM by whole layers, with one launch for each direction of a layer.
//
// tb-ops' kernel computes float layers if the processor can run it (microkernels/lstm.h). A oneDNN operator computes
// each other layer, as on PyTorch's CPU. PyTorch uses these operators for CPU tensors only, although they would accept
// other devices; elsewhere it composes cells step by step. Calls that a mode, a transform, a hook on saved tensors, a
// gradient of a gradient or compiled autograd must observe use oneDNN's operators too, as in linear.cpp.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/RNN.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout_ops.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/mkldnn_rnn_layer_ops.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>

#include "backends/host/cpu_kernels.h"
#include "backends/host/dispatch_transparency.h"
#include "backends/host/gemm/gemm.h"
#include "backends/host/host.h"
#include "dispatch/forced_fallback.h"
#include "intraop/thread_policy.h"
#include "microkernels/lstm.h"
#include "tb/autocast_state.h"
#include "tb/gradient_node.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor, at::TensorList;
namespace autograd = torch::autograd;
using microkernels::LstmGradients, microkernels::LstmLayer, microkernels::OutputGradient;

bool has_bfloat16_layers() {
  const auto supported = c10::Dispatcher::singleton().findSchema({"mkldnn::_is_mkldnn_bf16_supported", ""});
  return supported && supported->typed<bool()>().call();
}

// Whether layers of this type run whole. PyTorch's CPU also runs float16 layers whole, without gradients and if oneDNN
// supports them; here they are composed of cells.
bool has_layers(c10::ScalarType type) {
  static const bool bfloat16 = has_bfloat16_layers();
  return type == at::kFloat || (type == at::kBFloat16 && bfloat16);
}

// Whether the call runs by whole layers. The other calls are composed of cells: those with projections, those under
// autocast, which casts inside the cells, those with fake tensors while a program is traced, and those with wrong
// arguments, since the composition's errors say what is wrong.
bool runs_by_layers(const Tensor &input, TensorList states, TensorList weights) {
  if (!at::hasMKLDNN() || !at::globalContext().userEnabledMkldnn()) return false;
  if (at::autocast::is_autocast_enabled(device_type)) return false;
  const auto usable = [&](const Tensor &tensor) {
    return tensor.defined() && tensor.device().type() == device_type && tensor.device() == input.device() &&
           !tensor.key_set().has(c10::DispatchKey::Python) &&
           !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  };
  const auto is_state = [&](const Tensor &state) { return usable(state) && state.dim() == 3; };
  return usable(input) && has_layers(input.scalar_type()) && input.numel() != 0 && states.size() == 2 &&
         std::all_of(states.begin(), states.end(), is_state) && states[0].size(2) == states[1].size(2) &&
         std::all_of(weights.begin(), weights.end(), usable);
}

// ---- our layers -------------------------------------------------------------------------------------------------

// The tensors of one layer in one direction, in the order of mkldnn_rnn_layer and of its gradients. The input is steps
// x batch x inputs. The biases are undefined if the layer has none.
struct LayerTensors {
  Tensor input, input_weight, hidden_weight, input_bias, hidden_bias, hidden, cell;

  auto all() const { return std::tie(input, input_weight, hidden_weight, input_bias, hidden_bias, hidden, cell); }
};

const float *data(const Tensor &tensor) { return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr; }
float *output_data(Tensor &tensor) { return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr; }

LstmLayer layer_of(const Tensor &input, const Tensor &input_weight, const Tensor &hidden_weight, const Tensor &hidden,
                   const Tensor &cell, bool reversed) {
  return {.steps = input.size(0),
          .batch = input.size(1),
          .inputs = input.size(2),
          .hidden = hidden.size(1),
          .reversed = reversed,
          .input = data(input),
          .input_weight = data(input_weight),
          .hidden_weight = data(hidden_weight),
          .first_hidden = data(hidden),
          .first_cell = data(cell)};
}

void forward_kernel(const Tensor &input, const Tensor &input_weight, const Tensor &hidden_weight,
                    const Tensor &input_bias, const Tensor &hidden_bias, const Tensor &hidden, const Tensor &cell,
                    bool reversed, Tensor &output, Tensor &last_hidden, Tensor &last_cell, Tensor &gates,
                    Tensor &cells) {
  const LstmLayer layer = layer_of(input, input_weight, hidden_weight, hidden, cell, reversed);
  intraop.run_invariant(layer.nanoseconds(), [&] {
    layer.forward(openmp_loop, data(input_bias), data(hidden_bias), output_data(output), output_data(last_hidden),
                  output_data(last_cell), output_data(gates), output_data(cells));
  });
}

void backward_kernel(const Tensor &input, const Tensor &input_weight, const Tensor &hidden_weight, const Tensor &hidden,
                     const Tensor &cell, bool reversed, const Tensor &output, const Tensor &gates, const Tensor &cells,
                     const Tensor &grad_output, const Tensor &grad_last_hidden, const Tensor &grad_last_cell,
                     Tensor &grad_input, Tensor &grad_input_weight, Tensor &grad_hidden_weight, Tensor &grad_input_bias,
                     Tensor &grad_hidden_bias, Tensor &grad_hidden, Tensor &grad_cell, Tensor &grad_gates) {
  Tensor &grad_bias = grad_input_bias.defined() ? grad_input_bias : grad_hidden_bias;
  OutputGradient grad;
  if (grad_output.defined()) grad = {data(grad_output), grad_output.stride(0), grad_output.stride(1)};
  const LstmLayer layer = layer_of(input, input_weight, hidden_weight, hidden, cell, reversed);
  const LstmGradients gradients{.input = output_data(grad_input),
                                .input_weight = output_data(grad_input_weight),
                                .hidden_weight = output_data(grad_hidden_weight),
                                .bias = output_data(grad_bias),
                                .first_hidden = output_data(grad_hidden),
                                .first_cell = output_data(grad_cell),
                                .gates = output_data(grad_gates)};
  intraop.run_invariant(2 * layer.nanoseconds(), [&] {
    gradients.backward(openmp_loop, layer, data(output), data(gates), data(cells), grad, data(grad_last_hidden),
                       data(grad_last_cell));
  });
  if (grad_hidden_bias.defined() && !grad_hidden_bias.is_same(grad_bias))
    std::copy_n(data(grad_bias), grad_bias.numel(), output_data(grad_hidden_bias));
}

class LstmBackward final : public GradientNode<LstmBackward> {
public:
  LstmBackward(const LayerTensors &given, bool reversed, const Tensor &output, const Tensor &gates, const Tensor &cells)
      : GradientNode(
            std::apply([](const auto &...tensors) { return autograd::collect_next_edges(tensors...); }, given.all())),
        reversed_(reversed), device_(given.input.device()) {
    const auto save = [](const Tensor &tensor) { return autograd::SavedVariable(tensor, false); };
    given_ = std::apply([&](const auto &...tensors) { return std::array{save(tensors)...}; }, given.all());
    made_ = {save(output), save(gates), save(cells)};
  }

  std::string name() const override { return "MkldnnRnnLayerBackward0"; } // as PyTorch calls its own

  template <class Self> static auto state(Self &self) {
    return std::tuple_cat(std::apply([](auto &...saved) { return std::tie(saved...); }, self.given_),
                          std::apply([](auto &...saved) { return std::tie(saved...); }, self.made_),
                          std::tie(self.reversed_));
  }

  static variable_list gradients(const variable_list &grads, const Wanted &wanted, const Tensor &input,
                                 const Tensor &input_weight, const Tensor &hidden_weight, const Tensor &input_bias,
                                 const Tensor &hidden_bias, const Tensor &hidden, const Tensor &cell,
                                 const Tensor &output, const Tensor &gates, const Tensor &cells, bool reversed) {
    if (!has_gradient(grads)) return variable_list(wanted.size());
    return by_steps(grads, {input, input_weight, hidden_weight, input_bias, hidden_bias, hidden, cell}, output, gates,
                    cells, reversed);
  }

  variable_list apply(variable_list &&grads) override {
    const std::lock_guard lock(mutex_);
    const auto plain = [&](const Tensor &grad) {
      return !grad.defined() ||
             (can_bypass_dispatch(keys_of(grad)) && grad.scalar_type() == at::kFloat && grad.device() == device_);
    };
    const bool differentiable = c10::GradMode::is_enabled();
    if (!has_gradient(grads) || (!differentiable && !std::all_of(grads.begin(), grads.end(), plain)))
      return by_formula(grads);
    const auto unpack = [&](size_t i) { return given_[i].unpack(); };
    const LayerTensors given{unpack(0), unpack(1), unpack(2), unpack(3), unpack(4), unpack(5), unpack(6)};
    if (differentiable) return by_pytorch(grads, given, reversed_);

    variable_list wanted(given_.size());
    const Tensor &output_grad = grads[0];
    const Tensor rows = !output_grad.defined() || output_grad.stride(2) == 1 ? output_grad : output_grad.contiguous();
    const auto dense = [&](size_t i) { return grads[i].defined() ? grads[i].contiguous() : Tensor(); };
    size_t i = 0;
    const auto make = [&](const Tensor &like) {
      const bool keeps_state = i >= 5; // hidden and cell: the backward pass keeps its state in their gradients
      if (keeps_state || (like.defined() && task_should_compute_output(i)))
        wanted[i] = empty_on(like, like.sizes(), at::kFloat);
      i++;
    };
    std::apply([&](const auto &...tensors) { (make(tensors), ...); }, given.all());
    const Tensor output = made_[0].unpack(), gates = made_[1].unpack(), cells = made_[2].unpack();
    const Tensor grad_gates = empty_on(gates, gates.sizes(), at::kFloat);
    launch_kernel<"aten::lstm_backward", backward_kernel>(
        device_number(given.input), given.input, given.input_weight, given.hidden_weight, given.hidden, given.cell,
        reversed_, output, gates, cells, rows, dense(1), dense(2), wanted[0], wanted[1], wanted[2], wanted[3],
        wanted[4], wanted[5], wanted[6], grad_gates);
    return wanted;
  }

private:
  static bool has_gradient(const variable_list &grads) {
    return std::any_of(grads.begin(), grads.end(), [](const Tensor &grad) { return grad.defined(); });
  }

  // Computes gradients that need gradients themselves with the node of PyTorch's own layer.
  static variable_list by_pytorch(const variable_list &grads, const LayerTensors &given, bool reversed) {
    const bool has_biases = given.input_bias.defined();
    const Tensor none = has_biases ? Tensor() : given.input_weight.detach(); // passed as biases, which are not read
    const Tensor output = std::get<0>(at::_ops::mkldnn_rnn_layer::call(
        given.input, given.input_weight, given.hidden_weight, has_biases ? given.input_bias : none,
        has_biases ? given.hidden_bias : none, given.hidden, given.cell, reversed, {}, lstm_mode,
        given.hidden.sym_size(1).guard_int(__FILE__, __LINE__), 1, has_biases, false, false, true));
    return (*output.grad_fn())(variable_list(grads));
  }

  // Computes gradients step by step with plain operators, which a graph or a transform can take. oneDNN's operator cannot
  // be in a graph of the backward pass: it makes its workspace only while gradients are recorded.
  static variable_list by_steps(const variable_list &grads, const LayerTensors &given, const Tensor &output,
                                const Tensor &gates, const Tensor &cells, bool reversed) {
    const int64_t steps = given.input.sym_size(0).guard_int(__FILE__, __LINE__);
    Tensor grad_hidden = grads[1].defined() ? grads[1] : at::zeros_like(given.hidden),
           grad_cell = grads[2].defined() ? grads[2] : at::zeros_like(given.cell);
    std::vector<Tensor> grad_gates(static_cast<size_t>(steps)), hidden_before(static_cast<size_t>(steps));
    for (int64_t i = steps - 1; i >= 0; i--) {
      const int64_t time = reversed ? steps - 1 - i : i, earlier = reversed ? time + 1 : time - 1;
      const Tensor cell_before = i == 0 ? given.cell : cells.select(0, earlier);
      const std::vector<Tensor> gate = gates.select(0, time).chunk(4, 1);
      const Tensor &in = gate[0], &forget = gate[1], &fresh = gate[2], &out = gate[3];
      const Tensor squashed = cells.select(0, time).tanh();
      if (grads[0].defined()) grad_hidden = grad_hidden + grads[0].select(0, time);
      grad_cell = grad_cell + grad_hidden * out * (1 - squashed * squashed);
      const Tensor all = at::cat({grad_cell * fresh * in * (1 - in), grad_cell * cell_before * forget * (1 - forget),
                                  grad_cell * in * (1 - fresh * fresh), grad_hidden * squashed * out * (1 - out)},
                                 1);
      grad_gates[static_cast<size_t>(time)] = all;
      hidden_before[static_cast<size_t>(time)] = i == 0 ? given.hidden : output.select(0, earlier);
      grad_cell = grad_cell * forget;
      grad_hidden = all.mm(given.hidden_weight);
    }
    const auto as_rows = [](const Tensor &t) { return t.reshape_symint({-1, t.sym_size(2)}); };
    const Tensor sequence = at::stack(grad_gates), rows = as_rows(sequence), bias = rows.sum(0);
    const bool has_biases = given.input_bias.defined();
    return {sequence.matmul(given.input_weight),
            rows.t().mm(as_rows(given.input)),
            rows.t().mm(at::cat(hidden_before)),
            has_biases ? bias : Tensor(),
            has_biases ? bias : Tensor(),
            grad_hidden,
            grad_cell};
  }

  static constexpr int64_t lstm_mode = 2; // LSTM's number in PyTorch's oneDNN operators

  std::array<autograd::SavedVariable, 7> given_; // in the order of LayerTensors
  std::array<autograd::SavedVariable, 3> made_;  // output, gates, cells
  bool reversed_;
  c10::Device device_;
};

// Returns the output, the last hidden state and the last cell state.
std::array<Tensor, 3> run_layer(const LayerTensors &given, bool reversed) {
  const auto make = [&](c10::IntArrayRef sizes) { return empty_on(given.input, sizes, at::kFloat); };
  const int64_t steps = given.input.size(0), batch = given.input.size(1), hidden = given.hidden.size(1);
  const bool recorded =
      std::apply([](const auto &...tensors) { return autograd::compute_requires_grad(tensors...); }, given.all());
  std::array<Tensor, 3> results{make({steps, batch, hidden}), make({batch, hidden}), make({batch, hidden})};
  const Tensor gates = make({steps, batch, 4 * hidden}), cells = recorded ? make({steps, batch, hidden}) : Tensor();
  launch_kernel<"aten::lstm", forward_kernel>(device_number(given.input), given.input, given.input_weight,
                                              given.hidden_weight, given.input_bias, given.hidden_bias, given.hidden,
                                              given.cell, reversed, results[0], results[1], results[2], gates, cells);
  if (recorded) { // detach(): a node that kept the output itself would be a cycle
    const auto node = c10::make_intrusive<LstmBackward>(given, reversed, results[0].detach(), gates, cells);
    for (const Tensor &result : results) autograd::set_history(result, node);
    report_new_node(node);
  }
  return results;
}

// Whether the tensors are those of an LSTM with these properties, in the form that our layers require.
bool runs_by_our_layers(const Tensor &input, TensorList states, TensorList weights, bool has_biases, int64_t layers,
                        bool bidirectional, bool batch_first) {
  static const bool able = microkernels::has_lstm() && cpu_kernels() != CpuKernels::off;
  const int64_t directions = bidirectional ? 2 : 1, each = has_biases ? 4 : 2, hidden = states[0].size(2);
  if (!able || input.dim() != 3 || hidden == 0 || std::ssize(weights) != layers * directions * each) return false;
  if (is_forced("aten::mkldnn_rnn_layer") || is_forced("aten::mkldnn_rnn_layer_backward")) return false;
  const auto usable = [](const Tensor &tensor) {
    return tensor.scalar_type() == at::kFloat && !tensor._fw_grad(0).defined();
  };
  const auto is_state = [&](const Tensor &state) {
    return usable(state) &&
           state.sizes() == c10::IntArrayRef({layers * directions, input.size(batch_first ? 0 : 1), hidden});
  };
  if (!usable(input) || !std::all_of(states.begin(), states.end(), is_state)) return false;
  for (int64_t i = 0; i < std::ssize(weights); i++) {
    const Tensor &weight = weights[static_cast<size_t>(i)];
    const int64_t inputs = i / (directions * each) == 0 ? input.size(2) : directions * hidden,
                  columns[] = {inputs, hidden};
    const bool fits = i % each < 2 ? weight.sizes() == c10::IntArrayRef({4 * hidden, columns[i % each]})
                                   : weight.sizes() == c10::IntArrayRef({4 * hidden});
    if (!fits || !usable(weight) || !weight.is_contiguous()) return false;
  }
  return true;
}

std::tuple<Tensor, Tensor, Tensor> run_our_layers(const Tensor &given, TensorList states, TensorList weights,
                                                  bool has_biases, int64_t layers, double dropout, bool train,
                                                  bool bidirectional, bool batch_first) {
  Tensor input = (batch_first ? given.transpose(0, 1) : given).contiguous();
  const Tensor first_hidden = states[0].contiguous(), first_cell = states[1].contiguous();
  std::vector<Tensor> hidden, cell;
  const Tensor *weight = weights.data();
  for (int64_t layer = 0; layer < layers; layer++) {
    std::vector<Tensor> outputs;
    for (const bool reversed : {false, true}) {
      if (reversed && !bidirectional) continue;
      const auto i = std::ssize(hidden);
      const auto bias = [&](int64_t which) { return has_biases ? weight[which] : Tensor(); };
      auto [output, last_hidden, last_cell] =
          run_layer({input, weight[0], weight[1], bias(2), bias(3), first_hidden.select(0, i), first_cell.select(0, i)},
                    reversed);
      outputs.push_back(std::move(output));
      hidden.push_back(std::move(last_hidden));
      cell.push_back(std::move(last_cell));
      weight += has_biases ? 4 : 2;
    }
    input = bidirectional ? at::cat(outputs, -1) : std::move(outputs[0]);
    if (dropout != 0 && train && layer + 1 < layers) input = at::_ops::dropout::call(input, dropout, true);
  }
  return {batch_first ? input.transpose(0, 1) : input, at::stack(hidden, 0), at::stack(cell, 0)};
}

std::tuple<Tensor, Tensor, Tensor> lstm(c10::DispatchKeySet keys, const Tensor &input, TensorList states,
                                        TensorList weights, bool has_biases, int64_t layers, double dropout, bool train,
                                        bool bidirectional, bool batch_first) {
  if (!runs_by_layers(input, states, weights))
    return at::native::lstm(input, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first);
  if (can_bypass_dispatch(keys) && !has_saved_tensor_hooks() &&
      runs_by_our_layers(input, states, weights, has_biases, layers, bidirectional, batch_first))
    return run_our_layers(input, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first);
  Tensor output, hidden, cell;
  at::native::lstm_mkldnn_stub(c10::kCPU, output, hidden, cell, input, states, weights, has_biases, layers, dropout,
                               train, bidirectional, batch_first);
  return {std::move(output), std::move(hidden), std::move(cell)};
}

} // namespace

// Registers lstm() on both keys, like PyTorch's own composition: the operators inside it record the gradients.
void register_lstm(torch::Library &aten) {
  static auto *autograd =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  aten.impl("lstm.input", &lstm);
  autograd->impl("lstm.input", &lstm);
}

} // namespace tb::ops::host
