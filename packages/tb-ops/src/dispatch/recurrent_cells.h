// The fused cells of nn.LSTM and nn.GRU, composed of other operators. PyTorch calls the cells on every PrivateUse1 device,
// and has neither kernels of the CPU nor forward-mode derivatives for them.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace tb::ops {

using LstmResults = std::tuple<at::Tensor, at::Tensor, at::Tensor>; // hy, cy, workspace
using GruResults = std::tuple<at::Tensor, at::Tensor>;              // hy, workspace

// Biases may be undefined. The workspace holds the four gates after their nonlinearities.
LstmResults compose_lstm(const at::Tensor &input_gates, const at::Tensor &hidden_gates, const at::Tensor &cx,
                         const at::Tensor &input_bias, const at::Tensor &hidden_bias);
// The workspace holds reset, update and new gate, the old state, and the new gate's hidden part.
GruResults compose_gru(const at::Tensor &input_gates, const at::Tensor &hidden_gates, const at::Tensor &hx,
                       const at::Tensor &input_bias, const at::Tensor &hidden_bias);

// Returns block i of a batch x (count * size) tensor.
at::Tensor block(const at::Tensor &blocks, int64_t i, int64_t count);

// With tangents the compositions run on the calling thread, operator by operator, as on the CPU.
void register_cell_tangents();

} // namespace tb::ops
