// Fused recurrent cells. PyTorch's GRU and LSTMCell, and LSTM if lstm.cpp leaves it to PyTorch, call them on
// PrivateUse1 devices although they have no CPU kernel, so they are composed here of the CPU's operators, in one launch
// for each step.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_thnn_fused_gru_cell_ops.h>
#include <ATen/ops/_thnn_fused_lstm_cell_ops.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsub_ops.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tanh.h>

#include "backends/host/host.h"
#include "dispatch/recurrent_cells.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Arithmetic on CPU tensors, for the worker, and on tensors with tangents.
Tensor one_minus(const Tensor &a) { return at::_ops::rsub_Scalar::call(a, 1, 1); }
Tensor sigmoid_slope(const Tensor &y) { return mul(one_minus(y), y); }
Tensor tanh_slope(const Tensor &y) { return one_minus(mul(y, y)); }

void sum_rows(Tensor &out, const Tensor &rows) {
  if (out.defined())
    copy_result(out, at::_ops::sum_dim_IntList::call(rows, c10::IntArrayRef({0}), false, std::nullopt));
}

void check_cell(const char *cell, const Tensor &input_gates, const Tensor &hidden_gates, const Tensor &state,
                const Tensor &input_bias, const Tensor &hidden_bias, int64_t count) {
  TORCH_CHECK(input_gates.dim() == 2 && input_gates.sizes() == hidden_gates.sizes(), cell,
              ": gates must be two matrices of one shape, but got ", input_gates.sizes(), " and ",
              hidden_gates.sizes());
  TORCH_CHECK(input_gates.size(1) == count * state.size(1), cell, ": gates have ", input_gates.size(1),
              " columns, but a state of ", state.size(1), " needs ", count * state.size(1));
  TORCH_CHECK(input_bias.defined() == hidden_bias.defined(), cell, " wants both biases or none");
}

// ---- LSTM: workspace holds the four gates after their nonlinearities --------------------------------------------

void lstm_kernel(const Tensor &input_gates, const Tensor &hidden_gates, const Tensor &cx, const Tensor &input_bias,
                 const Tensor &hidden_bias, Tensor &hy, Tensor &cy, Tensor &workspace) {
  const auto [hidden, cell, gates] = compose_lstm(input_gates, hidden_gates, cx, input_bias, hidden_bias);
  copy_result(hy, hidden);
  copy_result(cy, cell);
  copy_result(workspace, gates);
}

LstmResults lstm_cell(const Tensor &input_gates, const Tensor &hidden_gates, const Tensor &cx,
                      const OptionalTensor &input_bias_given, const OptionalTensor &hidden_bias_given) {
  const Tensor &input_bias = value_or_undefined(input_bias_given);
  const Tensor &hidden_bias = value_or_undefined(hidden_bias_given);
  check_cell("LSTM cell", input_gates, hidden_gates, cx, input_bias, hidden_bias, 4);
  const c10::DeviceIndex device =
      common_device("aten::_thnn_fused_lstm_cell", {&input_gates, &hidden_gates, &cx, &input_bias, &hidden_bias});
  Tensor hy = empty_on(cx, cx.sizes(), cx.scalar_type()), cy = empty_on(cx, cx.sizes(), cx.scalar_type());
  Tensor workspace = empty_on(cx, input_gates.sizes(), input_gates.scalar_type());
  launch_kernel<"aten::_thnn_fused_lstm_cell", lstm_kernel>(device, input_gates, hidden_gates, cx, input_bias,
                                                            hidden_bias, hy, cy, workspace);
  return {std::move(hy), std::move(cy), std::move(workspace)};
}

void lstm_backward_kernel(const Tensor &grad_hy, const Tensor &grad_cy, const Tensor &cx, const Tensor &cy,
                          const Tensor &workspace, Tensor &grad_gates, Tensor &grad_cx, Tensor &grad_bias) {
  const Tensor in = block(workspace, 0, 4), forget = block(workspace, 1, 4), cell = block(workspace, 2, 4),
               out = block(workspace, 3, 4), squashed = tanh(cy);
  Tensor grad_cell = grad_cy;
  Tensor grad_out = at::_ops::mul_Scalar::call(squashed, 0);
  if (grad_hy.defined()) {
    const Tensor through = mul(mul(grad_hy, out), tanh_slope(squashed));
    grad_cell = grad_cy.defined() ? add(through, grad_cy) : through;
    grad_out = mul(mul(grad_hy, squashed), sigmoid_slope(out));
  }
  const Tensor gates = at::_ops::cat::call(std::vector<Tensor>{mul(mul(grad_cell, cell), sigmoid_slope(in)),
                                                               mul(mul(grad_cell, cx), sigmoid_slope(forget)),
                                                               mul(mul(grad_cell, in), tanh_slope(cell)), grad_out},
                                           1);
  copy_result(grad_gates, gates);
  copy_result(grad_cx, mul(grad_cell, forget));
  sum_rows(grad_bias, gates);
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor &grad_hy_given,
                                                      const OptionalTensor &grad_cy_given, const Tensor &cx,
                                                      const Tensor &cy, const Tensor &workspace, bool has_bias) {
  const Tensor &grad_hy = value_or_undefined(grad_hy_given), &grad_cy = value_or_undefined(grad_cy_given);
  if (!grad_hy.defined() && !grad_cy.defined()) return {};
  const c10::DeviceIndex device =
      common_device("aten::_thnn_fused_lstm_cell_backward_impl", {&cx, &cy, &workspace, &grad_hy, &grad_cy});
  Tensor grad_gates = empty_on(cx, workspace.sizes(), workspace.scalar_type());
  Tensor grad_cx = empty_on(cx, cx.sizes(), cx.scalar_type()), grad_bias;
  if (has_bias) grad_bias = empty_on(cx, {workspace.size(1)}, workspace.scalar_type());
  launch_kernel<"aten::_thnn_fused_lstm_cell_backward_impl", lstm_backward_kernel>(
      device, grad_hy, grad_cy, cx, cy, workspace, grad_gates, grad_cx, grad_bias);
  return {std::move(grad_gates), std::move(grad_cx), std::move(grad_bias)};
}

// ---- GRU: workspace holds reset, update and new gate, the old state, and the new gate's hidden part -------------

void gru_kernel(const Tensor &input_gates, const Tensor &hidden_gates, const Tensor &hx, const Tensor &input_bias,
                const Tensor &hidden_bias, Tensor &hy, Tensor &workspace) {
  const auto [state, gates] = compose_gru(input_gates, hidden_gates, hx, input_bias, hidden_bias);
  copy_result(hy, state);
  copy_result(workspace, gates);
}

GruResults gru_cell(const Tensor &input_gates, const Tensor &hidden_gates, const Tensor &hx,
                    const OptionalTensor &input_bias_given, const OptionalTensor &hidden_bias_given) {
  const Tensor &input_bias = value_or_undefined(input_bias_given);
  const Tensor &hidden_bias = value_or_undefined(hidden_bias_given);
  check_cell("GRU cell", input_gates, hidden_gates, hx, input_bias, hidden_bias, 3);
  const c10::DeviceIndex device =
      common_device("aten::_thnn_fused_gru_cell", {&input_gates, &hidden_gates, &hx, &input_bias, &hidden_bias});
  Tensor hy = empty_on(hx, hx.sizes(), hx.scalar_type());
  Tensor workspace = empty_on(hx, {hx.size(0), 5 * hx.size(1)}, hx.scalar_type());
  launch_kernel<"aten::_thnn_fused_gru_cell", gru_kernel>(device, input_gates, hidden_gates, hx, input_bias,
                                                          hidden_bias, hy, workspace);
  return {std::move(hy), std::move(workspace)};
}

void gru_backward_kernel(const Tensor &grad, const Tensor &workspace, Tensor &grad_input, Tensor &grad_hidden,
                         Tensor &grad_hx, Tensor &input_bias, Tensor &hidden_bias) {
  const Tensor reset = block(workspace, 0, 5), update = block(workspace, 1, 5), fresh = block(workspace, 2, 5),
               hx = block(workspace, 3, 5), hidden_new = block(workspace, 4, 5);
  const Tensor update_grad = mul(mul(grad, sub(hx, fresh)), sigmoid_slope(update));
  const Tensor fresh_grad = mul(mul(grad, one_minus(update)), tanh_slope(fresh));
  const Tensor reset_grad = mul(mul(fresh_grad, hidden_new), sigmoid_slope(reset));
  const Tensor input = at::_ops::cat::call(std::vector<Tensor>{reset_grad, update_grad, fresh_grad}, 1);
  const Tensor hidden = at::_ops::cat::call(std::vector<Tensor>{reset_grad, update_grad, mul(fresh_grad, reset)}, 1);
  copy_result(grad_input, input);
  copy_result(grad_hidden, hidden);
  copy_result(grad_hx, mul(grad, update));
  sum_rows(input_bias, input);
  sum_rows(hidden_bias, hidden);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor &grad, const Tensor &workspace,
                                                                     bool has_bias) {
  const c10::DeviceIndex device = common_device("aten::_thnn_fused_gru_cell_backward", {&grad, &workspace});
  const int64_t rows = grad.size(0), columns = 3 * grad.size(1);
  const c10::ScalarType type = grad.scalar_type();
  Tensor grad_input = empty_on(grad, {rows, columns}, type), grad_hidden = empty_on(grad, {rows, columns}, type);
  Tensor grad_hx = empty_on(grad, grad.sizes(), type), input_bias, hidden_bias;
  if (has_bias) {
    input_bias = empty_on(grad, {columns}, type);
    hidden_bias = empty_on(grad, {columns}, type);
  }
  launch_kernel<"aten::_thnn_fused_gru_cell_backward", gru_backward_kernel>(
      device, grad, workspace, grad_input, grad_hidden, grad_hx, input_bias, hidden_bias);
  return {std::move(grad_input), std::move(grad_hidden), std::move(grad_hx), std::move(input_bias),
          std::move(hidden_bias)};
}

} // namespace

void register_recurrent(torch::Library &aten) {
  register_cell_tangents();
  aten.impl("_thnn_fused_lstm_cell", &lstm_cell);
  aten.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  aten.impl("_thnn_fused_gru_cell", &gru_cell);
  aten.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
}

} // namespace tb::ops::host
