// The cells of nn.LSTM and nn.GRU, forward and backward.
#include <ATen/ops/_thnn_fused_gru_cell_backward_ops.h>
#include <ATen/ops/_thnn_fused_gru_cell_ops.h>
#include <ATen/ops/_thnn_fused_lstm_cell_backward_impl_ops.h>
#include <ATen/ops/_thnn_fused_lstm_cell_ops.h>
#include <ATen/ops/sum_ops.h>

#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"
#include "dispatch/recurrent_cells.h"
#include "tensor/outputs.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Throws for types that the kernels do not have. The CPU has no kernel either, so there is no fallback.
void check_types(const char *cell, const Tensor &first, std::initializer_list<const Tensor *> tensors) {
  const c10::ScalarType type = first.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(type != c10::kDouble || has_type(first.device().index(), type), cell,
                              " with tensors of Double: the device lacks float64. Compute it on the CPU: tensor.cpu()");
  for (const Tensor *tensor : tensors)
    TORCH_CHECK_NOT_IMPLEMENTED(!tensor->defined() ||
                                    (tensor->scalar_type() == type && c10::isFloatingType(type) && supported({tensor})),
                                cell, " with tensors of ", type, " and ", tensor->scalar_type(),
                                ": the device's kernels take one floating-point type. Convert with .to()");
}

void check_shapes(const char *cell, const Tensor &input, const Tensor &hidden, const Tensor &state,
                  const Tensor &input_bias, const Tensor &hidden_bias, int64_t blocks) {
  TORCH_CHECK(input.dim() == 2 && input.sizes() == hidden.sizes(), cell,
              ": gates must be two matrices of one shape, but got ", input.sizes(), " and ", hidden.sizes());
  TORCH_CHECK(state.dim() == 2 && input.size(0) == state.size(0) && input.size(1) == blocks * state.size(1), cell,
              ": gates of shape ", input.sizes(), " do not fit a state of shape ", state.sizes());
  TORCH_CHECK(input_bias.defined() == hidden_bias.defined(), cell, " wants both biases or none");
  TORCH_CHECK(!input_bias.defined() || (input_bias.numel() == input.size(1) && hidden_bias.numel() == input.size(1)),
              cell, ": a bias needs an element for each of the ", input.size(1), " columns of the gates");
}

template <class Arguments>
void launch_cell(const char *name, const char *struct_name, const Tensor &state, Arguments &arguments) {
  arguments.rows = state.size(0), arguments.size = state.size(1);
  launch_elements(device_number(state), {"recurrent.cuh", instance(name, state.scalar_type()), struct_name},
                  state.numel(), arguments);
}

Tensor sum_rows(const Tensor &gates, bool wanted) {
  return wanted ? at::_ops::sum_dim_IntList::call(gates, c10::IntArrayRef({0}), false, std::nullopt) : Tensor();
}

// Runs the forward kernel, which writes the new states and the workspace for the backward pass.
void run_cell(const char *cell, const char *kernel, const Tensor &input_given, const Tensor &hidden_given,
              const Tensor &state_given, const OptionalTensor &input_bias_given,
              const OptionalTensor &hidden_bias_given, int64_t blocks, const Tensor &output, const Tensor &cell_state,
              const Tensor &workspace) {
  const Tensor input = contiguous(input_given), hidden = contiguous(hidden_given), state = contiguous(state_given),
               input_bias = contiguous(value_or_undefined(input_bias_given)),
               hidden_bias = contiguous(value_or_undefined(hidden_bias_given));
  check_types(cell, state, {&input, &hidden, &state, &input_bias, &hidden_bias});
  check_shapes(cell, input, hidden, state, input_bias, hidden_bias, blocks);
  common_device(cell, {&input, &hidden, &state, &input_bias, &hidden_bias});
  kernels::CellArguments arguments{};
  arguments.input = input.const_data_ptr(), arguments.hidden = hidden.const_data_ptr();
  arguments.state = state.const_data_ptr();
  arguments.input_bias = data_of(input_bias), arguments.hidden_bias = data_of(hidden_bias);
  arguments.output = output.mutable_data_ptr(), arguments.workspace = workspace.mutable_data_ptr();
  if (cell_state.defined()) arguments.cell = cell_state.mutable_data_ptr();
  launch_cell(kernel, "CellArguments", state, arguments);
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor &input, const Tensor &hidden, const Tensor &cx,
                                             const OptionalTensor &input_bias, const OptionalTensor &hidden_bias) {
  Tensor hy = empty_on(cx, cx.sizes(), cx.scalar_type()), cy = empty_on(cx, cx.sizes(), cx.scalar_type()),
         workspace = empty_on(cx, input.sizes(), cx.scalar_type());
  run_cell("aten::_thnn_fused_lstm_cell", "lstm_cell", input, hidden, cx, input_bias, hidden_bias, 4, hy, cy,
           workspace);
  return {std::move(hy), std::move(cy), std::move(workspace)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor &grad_hy, const OptionalTensor &grad_cy,
                                                      const Tensor &cx, const Tensor &cy, const Tensor &workspace,
                                                      bool has_bias) {
  const Tensor grad = contiguous(value_or_undefined(grad_hy)), grad_cell = contiguous(value_or_undefined(grad_cy));
  if (!grad.defined() && !grad_cell.defined()) return {};
  const Tensor before = contiguous(cx), after = contiguous(cy), kept = contiguous(workspace);
  check_types("aten::_thnn_fused_lstm_cell_backward_impl", before, {&grad, &grad_cell, &before, &after, &kept});
  common_device("aten::_thnn_fused_lstm_cell_backward_impl", {&grad, &grad_cell, &before, &after, &kept});
  Tensor grad_gates = empty_on(kept, kept.sizes(), kept.scalar_type()),
         grad_cx = empty_on(before, before.sizes(), before.scalar_type());
  kernels::CellGradArguments arguments{};
  arguments.grad = data_of(grad), arguments.grad_cell = data_of(grad_cell);
  arguments.state = before.const_data_ptr(), arguments.cell = after.const_data_ptr();
  arguments.workspace = kept.const_data_ptr();
  arguments.grad_input = grad_gates.mutable_data_ptr(), arguments.grad_state = grad_cx.mutable_data_ptr();
  launch_cell("lstm_cell_backward", "CellGradArguments", before, arguments);
  Tensor grad_bias = sum_rows(grad_gates, has_bias);
  return {std::move(grad_gates), std::move(grad_cx), std::move(grad_bias)};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor &input, const Tensor &hidden, const Tensor &hx,
                                    const OptionalTensor &input_bias, const OptionalTensor &hidden_bias) {
  TORCH_CHECK(hx.dim() == 2, "GRU cell: the state must be a matrix, but has the shape ", hx.sizes());
  Tensor hy = empty_on(hx, hx.sizes(), hx.scalar_type()),
         workspace = empty_on(hx, {hx.size(0), 5 * hx.size(1)}, hx.scalar_type());
  run_cell("aten::_thnn_fused_gru_cell", "gru_cell", input, hidden, hx, input_bias, hidden_bias, 3, hy, {}, workspace);
  return {std::move(hy), std::move(workspace)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor &grad_hy, const Tensor &workspace,
                                                                     bool has_bias) {
  const Tensor grad = contiguous(grad_hy), kept = contiguous(workspace);
  check_types("aten::_thnn_fused_gru_cell_backward", grad, {&grad, &kept});
  common_device("aten::_thnn_fused_gru_cell_backward", {&grad, &kept});
  const at::DimVector gates{grad.size(0), 3 * grad.size(1)};
  const c10::ScalarType type = grad.scalar_type();
  Tensor grad_input = empty_on(grad, gates, type), grad_hidden = empty_on(grad, gates, type),
         grad_hx = empty_on(grad, grad.sizes(), type);
  kernels::CellGradArguments arguments{};
  arguments.grad = grad.const_data_ptr(), arguments.workspace = kept.const_data_ptr();
  arguments.grad_input = grad_input.mutable_data_ptr(), arguments.grad_hidden = grad_hidden.mutable_data_ptr();
  arguments.grad_state = grad_hx.mutable_data_ptr();
  launch_cell("gru_cell_backward", "CellGradArguments", grad, arguments);
  Tensor input_bias = sum_rows(grad_input, has_bias), hidden_bias = sum_rows(grad_hidden, has_bias);
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

} // namespace tb::ops::jit
