// nn.LSTM as stock CPU runs it, a oneDNN operator for each layer and direction. PyTorch takes that way for CPU tensors
// only, though nothing in it but this condition keeps other devices out; elsewhere it composes cells step by step.
#include "kernels/stub.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/RNN.h>
#include <ATen/ops/lstm_native.h>

#include <algorithm>

#include "kernels/kernels.h"
#include "runtime.h"

namespace tb {
namespace {

using at::Tensor, at::TensorList;

bool has_bfloat16_layers() {
  const auto supported = c10::Dispatcher::singleton().findSchema({"mkldnn::_is_mkldnn_bf16_supported", ""});
  return supported && supported->typed<bool()>().call();
}

// Stock runs float16 layers too, without gradients and where oneDNN has them; here those are composed.
bool has_layers(c10::ScalarType type) {
  static const bool bfloat16 = has_bfloat16_layers();
  return type == at::kFloat || (type == at::kBFloat16 && bfloat16);
}

// What is composed: projections; autocast, which casts inside the cells; tensors that stand for others while a program
// is traced. Arguments that are wrong go there too, since its errors say what is wrong.
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

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor &input, TensorList states, TensorList weights, bool has_biases,
                                        int64_t layers, double dropout, bool train, bool bidirectional,
                                        bool batch_first) {
  if (!runs_by_layers(input, states, weights))
    return at::native::lstm(input, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first);
  Tensor output, hidden, cell;
  at::native::lstm_mkldnn_stub(c10::kCPU, output, hidden, cell, input, states, weights, has_biases, layers, dropout,
                               train, bidirectional, batch_first);
  return {std::move(output), std::move(hidden), std::move(cell)};
}

} // namespace

// On both keys, as PyTorch's own composition: with gradients the operators inside record them.
void register_lstm(torch::Library &aten) {
  static auto *autograd =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  aten.impl("lstm.input", TORCH_FN(lstm));
  autograd->impl("lstm.input", TORCH_FN(lstm));
}

} // namespace tb
