// Calls of single microkernels on CPU tensors, without any choice by trial.
#include "testing_microkernels.h"

#include <ATen/ops/empty.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>

#include "backends/host/attention/attention.h"
#include "backends/host/gemm/gemm.h"
#include "microkernels/attention.h"
#include "microkernels/lstm.h"
#include "microkernels/max_pool.h"
#include "tb/tensor_caster.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::ops {
namespace {

using at::Tensor;
using host::openmp_loop;
using microkernels::Attention;

void expect_floats(std::initializer_list<const Tensor *> tensors) {
  for (const Tensor *tensor : tensors)
    TORCH_CHECK(tensor->is_cpu() && tensor->scalar_type() == at::kFloat && tensor->is_contiguous(),
                "microkernels are tested on contiguous float tensors of the CPU, not on ", tensor->toString());
}

Tensor empty(c10::IntArrayRef sizes) { return at::empty(sizes, at::kFloat); }

Attention attention_on(const Tensor &query, const Tensor &key, const Tensor &value, bool causal, double scale,
                       bool backward) {
  expect_floats({&query, &key, &value});
  TORCH_CHECK(query.dim() == 4 && key.sizes() == value.sizes() && query.size(3) == key.size(3),
              "attention takes batch x heads x positions x width, not ", query.sizes(), " and ", key.sizes());
  return host::attention_of(host::attention_size(query, key, causal, backward), query, key, value, scale);
}

std::optional<std::vector<Tensor>> attention_forward(const Tensor &query, const Tensor &key, const Tensor &value,
                                                     bool causal, double scale) {
  const Attention attention = attention_on(query, key, value, causal, scale, false);
  const Tensor out = empty(query.sizes()), logsumexp = empty(query.sizes().slice(0, 3));
  if (!attention.size.is_supported()) return std::nullopt;
  if (!host::forward_by_microkernel(attention, out, logsumexp)) return std::vector<Tensor>();
  return std::vector{out, logsumexp};
}

std::optional<std::vector<Tensor>> attention_backward(const Tensor &query, const Tensor &key, const Tensor &value,
                                                      const Tensor &out, const Tensor &logsumexp, const Tensor &grad,
                                                      bool causal, double scale) {
  const Attention attention = attention_on(query, key, value, causal, scale, true);
  expect_floats({&out, &logsumexp, &grad});
  const std::vector grads{empty(query.sizes()), empty(key.sizes()), empty(value.sizes())};
  if (!attention.size.is_supported()) return std::nullopt;
  host::backward_by_microkernel(attention, out, logsumexp, grad, grads[0], grads[1], grads[2]);
  return grads;
}

microkernels::LstmLayer layer_of(const std::vector<Tensor> &given, bool reversed) {
  TORCH_CHECK(given.size() == 5, "an LSTM layer has an input, two weights, a hidden state and a cell state");
  for (const Tensor &tensor : given) expect_floats({&tensor});
  return {.steps = given[0].size(0),
          .batch = given[0].size(1),
          .inputs = given[0].size(2),
          .hidden = given[3].size(1),
          .reversed = reversed,
          .input = given[0].const_data_ptr<float>(),
          .input_weight = given[1].const_data_ptr<float>(),
          .hidden_weight = given[2].const_data_ptr<float>(),
          .first_hidden = given[3].const_data_ptr<float>(),
          .first_cell = given[4].const_data_ptr<float>()};
}

std::optional<std::vector<Tensor>> lstm_forward(const std::vector<Tensor> &given, const Tensor &input_bias,
                                                const Tensor &hidden_bias, bool reversed) {
  const microkernels::LstmLayer layer = layer_of(given, reversed);
  expect_floats({&input_bias, &hidden_bias});
  if (!microkernels::has_lstm()) return std::nullopt;
  const int64_t steps = layer.steps, batch = layer.batch, hidden = layer.hidden;
  const std::vector made{empty({steps, batch, hidden}), empty({batch, hidden}), empty({batch, hidden}),
                         empty({steps, batch, 4 * hidden}), empty({steps, batch, hidden})};
  const auto data = [&](size_t i) { return made[i].mutable_data_ptr<float>(); };
  layer.forward(openmp_loop, input_bias.const_data_ptr<float>(), hidden_bias.const_data_ptr<float>(), data(0), data(1),
                data(2), data(3), data(4));
  return made;
}

std::optional<std::vector<Tensor>> lstm_backward(const std::vector<Tensor> &given, const std::vector<Tensor> &made,
                                                 const Tensor &grad_output, const Tensor &grad_hidden,
                                                 const Tensor &grad_cell, bool reversed) {
  const microkernels::LstmLayer layer = layer_of(given, reversed);
  TORCH_CHECK(made.size() == 5, "the backward pass takes the five results of lstm_forward");
  for (const Tensor &tensor : made) expect_floats({&tensor});
  expect_floats({&grad_output, &grad_hidden, &grad_cell});
  if (!microkernels::has_lstm()) return std::nullopt;
  std::vector<Tensor> grads;
  for (const Tensor &tensor : given) grads.push_back(empty(tensor.sizes()));
  grads.push_back(empty({4 * layer.hidden}));
  const Tensor gates = empty(made[3].sizes());
  const auto to = [&](size_t i) { return grads[i].mutable_data_ptr<float>(); };
  const auto from = [&](size_t i) { return made[i].const_data_ptr<float>(); };
  microkernels::LstmGradients{.input = to(0),
                              .input_weight = to(1),
                              .hidden_weight = to(2),
                              .bias = to(5),
                              .first_hidden = to(3),
                              .first_cell = to(4),
                              .gates = gates.mutable_data_ptr<float>()}
      .backward(openmp_loop, layer, from(0), from(3), from(4),
                {grad_output.const_data_ptr<float>(), grad_output.stride(0), grad_output.stride(1)},
                grad_hidden.const_data_ptr<float>(), grad_cell.const_data_ptr<float>());
  return grads;
}

// Each setting has the values of rows and columns, in the order of PoolWindows.
std::tuple<Tensor, Tensor> max_pool(const Tensor &image, std::array<int64_t, 2> output, std::array<int64_t, 2> kernel,
                                    std::array<int64_t, 2> stride, std::array<int64_t, 2> padding,
                                    std::array<int64_t, 2> dilation) {
  TORCH_CHECK(image.is_cpu() && image.is_contiguous() && image.dim() == 3 &&
                  (image.scalar_type() == at::kFloat || image.scalar_type() == at::kDouble),
              "max_pool is tested on contiguous planes x rows x columns of float or double");
  const auto windows = [&](size_t i) {
    return microkernels::PoolWindows{
        image.size(static_cast<int64_t>(i) + 1), output[i], kernel[i], stride[i], padding[i], dilation[i]};
  };
  const std::array<int64_t, 3> sizes{image.size(0), output[0], output[1]};
  Tensor out = at::empty(sizes, image.scalar_type()), indices = at::empty(sizes, at::kLong);
  const auto run = [&]<class T>(T) {
    microkernels::max_pool(windows(0), windows(1), image.size(0), image.const_data_ptr<T>(), out.mutable_data_ptr<T>(),
                           indices.mutable_data_ptr<int64_t>());
  };
  image.scalar_type() == at::kFloat ? run(float{}) : run(double{});
  return {out, indices};
}

} // namespace

void bind_microkernels(nb::module_ &testing) {
  testing.def("attention_forward", &attention_forward, "query"_a, "key"_a, "value"_a, "causal"_a, "scale"_a,
              "Output and logarithms of sums; empty if a score is NaN, None if this processor has no AVX-512.");
  testing.def("attention_backward", &attention_backward, "query"_a, "key"_a, "value"_a, "out"_a, "logsumexp"_a,
              "grad"_a, "causal"_a, "scale"_a,
              "Gradients of query, key and value; None if this processor has no AVX-512.");
  testing.def("lstm_forward", &lstm_forward, "given"_a, "input_bias"_a, "hidden_bias"_a, "reversed"_a,
              "Of (input, input weight, hidden weight, hidden, cell): output, last hidden, last cell, gates and cells; "
              "None if this processor has no AVX-512.");
  testing.def("lstm_backward", &lstm_backward, "given"_a, "made"_a, "grad_output"_a, "grad_hidden"_a, "grad_cell"_a,
              "reversed"_a,
              "Gradients of the five tensors of `given` and of one bias; None if this processor has no AVX-512.");
  testing.def("max_pool", &max_pool, "image"_a, "output"_a, "kernel"_a, "stride"_a, "padding"_a, "dilation"_a,
              "Maxima and indices of planes x rows x columns; each setting is a pair for rows and columns.");
}

} // namespace tb::ops
