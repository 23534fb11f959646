#include "dispatch/recurrent_cells.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_thnn_fused_gru_cell_ops.h>
#include <ATen/ops/_thnn_fused_lstm_cell_ops.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tanh.h>
#include <torch/library.h>

#include <vector>

#include "tensor/outputs.h"

namespace tb::ops {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor biased(const Tensor &gates, const Tensor &bias) { return bias.defined() ? add(gates, bias) : gates; }

Tensor joined(const std::vector<Tensor> &blocks) { return at::_ops::cat::call(blocks, 1); }

// Calls compose(...) if a tensor has a tangent. Otherwise calls the kernel that PyTorch generates for autograd, which
// every backend has and which the registration for AutogradPrivateUse1 hides.
template <class Op, auto compose, class Results>
Results with_tangents(c10::DispatchKeySet keys, const Tensor &input_gates, const Tensor &hidden_gates,
                      const Tensor &state, const OptionalTensor &input_bias, const OptionalTensor &hidden_bias) {
  const auto has_tangent = [](const Tensor &tensor) { return tensor.defined() && tensor._fw_grad(0).defined(); };
  const Tensor &bias = value_or_undefined(input_bias), &other_bias = value_or_undefined(hidden_bias);
  if (has_tangent(input_gates) || has_tangent(hidden_gates) || has_tangent(state) || has_tangent(bias) ||
      has_tangent(other_bias)) [[unlikely]]
    return compose(input_gates, hidden_gates, state, bias, other_bias);
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name);
  static const c10::SafeKernelFunction generated = op.getComputedKernelForDispatchKey(c10::DispatchKey::AutogradCPU);
  torch::jit::Stack stack;
  stack.reserve(5);
  torch::jit::push(stack, input_gates, hidden_gates, state, input_bias, hidden_bias);
  generated.callBoxed(op, keys, &stack);
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return Results{std::move(stack[i]).toTensor()...};
  }(std::make_index_sequence<std::tuple_size_v<Results>>{});
}

} // namespace

Tensor block(const Tensor &blocks, int64_t i, int64_t count) {
  const int64_t size = blocks.size(1) / count;
  return blocks.narrow(1, i * size, size);
}

LstmResults compose_lstm(const Tensor &input_gates, const Tensor &hidden_gates, const Tensor &cx,
                         const Tensor &input_bias, const Tensor &hidden_bias) {
  const Tensor gates = add(biased(input_gates, input_bias), biased(hidden_gates, hidden_bias));
  const Tensor in = sigmoid(block(gates, 0, 4)), forget = sigmoid(block(gates, 1, 4)), cell = tanh(block(gates, 2, 4)),
               out = sigmoid(block(gates, 3, 4));
  const Tensor cy = add(mul(forget, cx), mul(in, cell));
  return {mul(out, tanh(cy)), cy, joined({in, forget, cell, out})};
}

GruResults compose_gru(const Tensor &input_gates, const Tensor &hidden_gates, const Tensor &hx,
                       const Tensor &input_bias, const Tensor &hidden_bias) {
  const Tensor input = biased(input_gates, input_bias), hidden = biased(hidden_gates, hidden_bias);
  const Tensor reset = sigmoid(add(block(hidden, 0, 3), block(input, 0, 3)));
  const Tensor update = sigmoid(add(block(hidden, 1, 3), block(input, 1, 3)));
  const Tensor hidden_new = block(hidden, 2, 3);
  const Tensor fresh = tanh(add(block(input, 2, 3), mul(hidden_new, reset)));
  return {add(mul(sub(hx, fresh), update), fresh), joined({reset, update, fresh, hx, hidden_new})};
}

void register_cell_tangents() {
  static auto *autograd =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  autograd->impl("_thnn_fused_lstm_cell", &with_tangents<at::_ops::_thnn_fused_lstm_cell, &compose_lstm, LstmResults>);
  autograd->impl("_thnn_fused_gru_cell", &with_tangents<at::_ops::_thnn_fused_gru_cell, &compose_gru, GruResults>);
}

} // namespace tb::ops
