// Scaled dot product attention by the CPU's flash kernels, or by our microkernel. PyTorch asks _fused_sdp_choice first,
// and composes the calls that the kernels do not accept (dropout, odd shapes, double masks) of other operators.
#include <ATen/OpMathType.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zero_native.h>

#include <array>
#include <cmath>

#include "backends/host/attention/attention.h"
#include "backends/host/cpu_kernels.h"
#include "backends/host/gemm/parallel_gemm.h"
#include "backends/host/host.h"
#include "intraop/thread_policy.h"
#include "intraop/tried_threads.h"
#include "microkernels/attention.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using microkernels::Attention, microkernels::AttentionSize, microkernels::HeadVectors;

// Exchanges the dimensions of heads and positions. Runs on the worker. It may change the alias in place, because the
// alias ends with the closure.
const Tensor &swap_middle(const Tensor &alias) {
  c10::DimVector sizes(alias.sizes()), strides(alias.strides());
  std::swap(sizes[1], sizes[2]);
  std::swap(strides[1], strides[2]);
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return alias;
}

// Returns a new batch x heads x length (x size) tensor that is stored as batch x length x heads (x size).
Tensor empty_by_position(const Tensor &like, c10::IntArrayRef sizes, c10::ScalarType type) {
  const int64_t inner = sizes.size() == 4 ? sizes[3] : 1;
  c10::DimVector strides{sizes[1] * sizes[2] * inner, inner, sizes[1] * inner};
  if (sizes.size() == 4) strides.push_back(1);
  return empty(sizes, strides, type, device_number(like));
}

void stock_forward(const Tensor &query, const Tensor &key, const Tensor &value, bool causal, const OptionalTensor &mask,
                   std::optional<double> scale, const Tensor &out, const Tensor &logsumexp) {
  swap_middle(out);
  swap_middle(logsumexp);
  const SequentialBlasScope blas;
  at::native::flash_attention_kernel(c10::kCPU, out, logsumexp, query, key, value, 0.0, causal, mask, scale);
}

// Sets the gradients to zero first, because the kernel adds to them.
void stock_backward(const Tensor &grad, const Tensor &query, const Tensor &key, const Tensor &value, const Tensor &out,
                    const Tensor &logsumexp, bool causal, const OptionalTensor &mask, std::optional<double> scale,
                    const Tensor &grad_query, const Tensor &grad_key, const Tensor &grad_value) {
  for (const Tensor *gradient : {&grad_query, &grad_key, &grad_value})
    at::native::zero_(const_cast<Tensor &>(*gradient));
  const SequentialBlasScope blas;
  at::native::flash_attention_backward_kernel(c10::kCPU, grad_query, grad_key, grad_value, grad, query, key, value, out,
                                              logsumexp, 0.0, causal, mask, scale);
}

// ---- our microkernel ------------------------------------------------------------------------------------------------

Autotuner<AttentionSize> &autotuner() {
  static auto &object = *new Autotuner<AttentionSize>(microkernel_rule); // workers outlive static objects
  return object;
}

template <class T> HeadVectors<T> heads_of(const Tensor &tensor) {
  return {static_cast<T *>(tensor.data_ptr()), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

// Takes tensors for a trial out of `numbers`, one after the other. Each is batch x heads x positions x width, and
// stored by position.
class TrialTensors {
public:
  TrialTensors(const AttentionSize &size, float *numbers) : size_(size), next_(numbers) {}
  Tensor take(int64_t positions, int64_t width) {
    const int64_t row = size_.heads * width;
    float *const begin = next_;
    next_ += size_.batch * positions * row;
    return at::from_blob(begin, {size_.batch, size_.heads, positions, width}, {positions * row, width, row, 1},
                         at::kFloat);
  }

private:
  const AttentionSize &size_;
  float *next_;
};

// Runs PyTorch's kernel and ours on the same random numbers. The scale is not a power of two, because multiplication by
// one is exact and would hide a difference in the order of scaling and adding.
Trial try_both(const AttentionSize &size, uint32_t state) {
  constexpr double scale = 0.3;
  const int64_t heads = size.batch * size.heads, queries = heads * size.queries * size.width,
                keys = heads * size.keys * size.width;
  auto numbers = trial_numbers<float>(2 * queries + 2 * keys, state);
  TrialTensors given(size, numbers.data());
  const Tensor query = given.take(size.queries, size.width), key = given.take(size.keys, size.width),
               value = given.take(size.keys, size.width), grad = given.take(size.queries, size.width);
  const Attention attention = attention_of(size, query, key, value, scale);
  const auto forward = [&](float *to, bool ours) {
    TrialTensors made(size, to);
    const Tensor out = made.take(size.queries, size.width), logsumexp = made.take(size.queries, 1);
    if (ours)
      forward_by_microkernel(attention, out, logsumexp.select(3, 0));
    else
      stock_forward(query, key, value, size.causal, std::nullopt, scale, out, logsumexp.select(3, 0));
  };
  std::vector<float> forwards(static_cast<size_t>(queries + heads * size.queries));
  if (size.backward) forward(forwards.data(), false);
  TrialTensors made(size, forwards.data());
  const Tensor out = made.take(size.queries, size.width), logsumexp = made.take(size.queries, 1);
  const auto backward = [&](float *to, bool ours) {
    TrialTensors grads(size, to);
    const Tensor grad_query = grads.take(size.queries, size.width), grad_key = grads.take(size.keys, size.width),
                 grad_value = grads.take(size.keys, size.width);
    if (ours)
      return backward_by_microkernel(attention, out, logsumexp.select(3, 0), grad, grad_query, grad_key, grad_value);
    const auto swapped = [](const Tensor &tensor) { return tensor.transpose(1, 2); };
    stock_backward(swapped(grad), swapped(query), swapped(key), swapped(value), swapped(out),
                   swapped(logsumexp.select(3, 0)), size.causal, std::nullopt, scale, swapped(grad_query),
                   swapped(grad_key), swapped(grad_value));
  };
  const std::vector<float> before(size.backward ? static_cast<size_t>(queries + 2 * keys) : forwards.size());
  const auto by = [&](bool ours) {
    return [&, ours](float *to) { size.backward ? backward(to, ours) : forward(to, ours); };
  };
  return compare(before, by(false), by(true));
}

// Compares both kernels on so many numbers that a rare difference in rounding appears.
Trial try_microkernel(const AttentionSize &size) {
  Trial whole = try_both(size, 1);
  if (!whole.identical || whole.candidate >= whole.baseline) return whole;
  // The sums over earlier blocks of keys can hide a difference in the last block, so that block is tried by itself.
  if (AttentionSize last = size; size.keys > AttentionSize::block_keys) {
    last.keys = size.keys % AttentionSize::block_keys;
    if (last.keys > 0) {
      const Trial alone = try_microkernel(last);
      if (!alone.identical || alone.candidate >= alone.baseline) return alone;
    }
  }
  constexpr int64_t enough_weights = 200'000, most_trials = 8;
  const int64_t trials = std::min(most_trials, enough_weights / (size.batch * size.heads * size.queries * size.keys));
  for (int64_t i = 1; i < trials && whole.identical; i++)
    whole.identical = try_both(size, static_cast<uint32_t>(i + 1)).identical;
  return whole;
}

// Returns the size if our microkernel computes the call; empty if PyTorch's kernel does. Runs on the worker.
std::optional<AttentionSize> microkernel_size(const Tensor &query, const Tensor &key, const Tensor &value,
                                              const OptionalTensor &mask, bool causal, std::optional<double> scale,
                                              bool backward) {
  if (causal && scale && !(*scale > 0)) return std::nullopt; // masked scores would not stay minus infinity
  if ((mask && mask->defined()) || query.scalar_type() != c10::kFloat || !supports_gemm(c10::kFloat))
    return std::nullopt;
  const AttentionSize size = attention_size(query, key, causal, backward);
  const std::array<int64_t, 4> keys{size.batch, size.heads, size.keys, size.width};
  if (key.sizes() != c10::IntArrayRef(keys) || value.sizes() != c10::IntArrayRef(keys)) return std::nullopt;
  for (const Tensor *tensor : {&query, &key, &value})
    if (tensor->stride(3) != 1) return std::nullopt;
  constexpr double worth = 20'000;    // nanoseconds; shorter calls are not tried
  constexpr int64_t most = 4'000'000; // elements
  const int64_t heads = size.batch * size.heads, positions = heads * std::max(size.queries, size.keys);
  if (!size.is_supported() || size.nanoseconds() < worth || positions * size.width > most) return std::nullopt;
  // PyTorch's forward kernel divides blocks of queries among the threads, and ours divides heads. With too few heads
  // ours would use fewer threads.
  if (!backward && heads < intraop.parts(positions / 32, size.nanoseconds())) return std::nullopt;
  const auto try_on_one_thread = [&] {
    Trial trial{};
    intraop.on(1, [&] { trial = try_microkernel(size); });
    return trial;
  };
  return use_microkernel(autotuner(), size, try_on_one_thread) ? std::optional(size) : std::nullopt;
}

// ---- on the worker ------------------------------------------------------------------------------------------------

void forward_kernel(const Tensor &query, const Tensor &key, const Tensor &value, bool causal,
                    const OptionalTensor &mask, std::optional<double> scale, Tensor &out, Tensor &logsumexp) {
  const auto size = microkernel_size(query, key, value, mask, causal, scale, false);
  if (!size) return stock_forward(query, key, value, causal, mask, scale, out, logsumexp);
  bool done = false;
  intraop.run_invariant(size->nanoseconds(), [&] {
    done = forward_by_microkernel(attention_of(*size, query, key, value, scale), out, logsumexp);
  });
  if (!done) stock_forward(query, key, value, causal, mask, scale, out, logsumexp);
}

// Returns `out` and `logsumexp`, batch x heads x length (x size), with the strides that the CPU gives them.
std::tuple<Tensor, Tensor> forward(const Tensor &query, const Tensor &key, const Tensor &value, double dropout,
                                   bool causal, const OptionalTensor &mask, std::optional<double> scale) {
  const c10::ScalarType type = query.scalar_type();
  TORCH_CHECK(c10::isFloatingType(type),
              "scaled_dot_product_attention_flash_attention: Expected data type in FP32, FP64, BF16, FP16, but got ",
              type, " instead.");
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
              "scaled_dot_product_attention_flash_attention: Accept only 4 dims inputs shape of {B, H, T, K}");
  TORCH_CHECK(dropout == 0.0, "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0");
  TORCH_CHECK(query.size(3) == value.size(3) && key.size(3) == value.size(3),
              "scaled_dot_product_attention_flash_attention: Q/K/V should have the same head size");
  TORCH_CHECK(!mask || mask->scalar_type() == c10::kFloat || mask->scalar_type() == type,
              "scaled_dot_product_attention_flash_attention: Attention mask is the same data type as query");
  TORCH_CHECK(!mask || mask->dim() == 2 || mask->dim() == 4,
              "scaled_dot_product_attention_flash_attention: Attention mask dim in {2, 4}");
  const c10::DeviceIndex device =
      common_device("scaled_dot_product_attention", {&query, &key, &value, &value_or_undefined(mask)});
  Tensor out = empty_preserving(query, type);
  Tensor logsumexp = empty_by_position(query, query.sizes().slice(0, 3), at::toOpMathType(type));
  launch_kernel<"aten::scaled_dot_product_attention", forward_kernel>(device, query, key, value, causal, mask, scale,
                                                                      out, logsumexp);
  return {std::move(out), std::move(logsumexp)};
}

void backward_kernel(const Tensor &grad, const Tensor &query, const Tensor &key, const Tensor &value, const Tensor &out,
                     const Tensor &logsumexp, bool causal, const OptionalTensor &mask, std::optional<double> scale,
                     Tensor &grad_query, Tensor &grad_key, Tensor &grad_value) {
  const bool fits = grad.sizes() == query.sizes() && out.sizes() == query.sizes() &&
                    logsumexp.sizes() == query.sizes().slice(0, 3) && grad.stride(3) == 1 && out.stride(3) == 1;
  if (fits)
    if (const auto size = microkernel_size(query, key, value, mask, causal, scale, true))
      return intraop.run_invariant(size->nanoseconds(), [&] {
        backward_by_microkernel(attention_of(*size, query, key, value, scale), out, logsumexp, grad, grad_query,
                                grad_key, grad_value);
      });
  for (const Tensor &tensor : {grad_query, grad_key, grad_value, grad, query, key, value, out, logsumexp})
    swap_middle(tensor);
  std::vector<int64_t> shape{reinterpret_cast<int64_t>(&backward_kernel), static_cast<int64_t>(query.scalar_type()),
                             causal, mask.has_value()};
  for (const Tensor *tensor : {&grad, &query, &key, &value, &out}) {
    shape.insert(shape.end(), tensor->sizes().begin(), tensor->sizes().end());
    shape.insert(shape.end(), tensor->strides().begin(), tensor->strides().end());
  }
  run_on_tried_threads(std::move(shape), {grad_query, grad_key, grad_value}, [&] {
    stock_backward(grad, query, key, value, out, logsumexp, causal, mask, scale, grad_query, grad_key, grad_value);
  });
}

std::tuple<Tensor, Tensor, Tensor> backward(const Tensor &grad, const Tensor &query, const Tensor &key,
                                            const Tensor &value, const Tensor &out, const Tensor &logsumexp,
                                            double dropout, bool causal, const OptionalTensor &mask,
                                            std::optional<double> scale) {
  if (!grad.defined()) return {};
  TORCH_CHECK(dropout == 0.0, "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0");
  const c10::DeviceIndex device =
      common_device("scaled_dot_product_attention_backward",
                    {&grad, &query, &key, &value, &out, &logsumexp, &value_or_undefined(mask)});
  Tensor grad_query = empty_by_position(query, query.sizes(), query.scalar_type());
  Tensor grad_key = empty_by_position(key, key.sizes(), key.scalar_type());
  Tensor grad_value = empty_by_position(value, value.sizes(), value.scalar_type());
  launch_kernel<"aten::scaled_dot_product_attention_backward", backward_kernel>(
      device, grad, query, key, value, out, logsumexp, causal, mask, scale, grad_query, grad_key, grad_value);
  return {std::move(grad_query), std::move(grad_key), std::move(grad_value)};
}

// ---- the pair that PyTorch leaves to backends -------------------------------------------------------------------

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>
overrideable(const Tensor &query, const Tensor &key, const Tensor &value, const OptionalTensor &bias, double dropout,
             bool causal, bool, std::optional<double> scale) {
  auto [out, logsumexp] = forward(query, key, value, dropout, causal, bias, scale);
  return {std::move(out),    std::move(logsumexp), Tensor(), Tensor(),
          query.sym_size(2), key.sym_size(2),      Tensor(), Tensor(),
          Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor>
overrideable_backward(const Tensor &grad, const Tensor &query, const Tensor &key, const Tensor &value,
                      const Tensor &bias, std::array<bool, 4> mask, const Tensor &out, const Tensor &logsumexp,
                      const Tensor &, const Tensor &, c10::SymInt, c10::SymInt, double dropout, bool causal,
                      const Tensor &, const Tensor &, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(!mask[3] || !bias.defined(),
                              "the fused attention kernel gives no gradient for its bias; choose the math backend with "
                              "torch.nn.attention.sdpa_kernel");
  const OptionalTensor given = bias.defined() ? OptionalTensor(bias) : std::nullopt;
  auto [grad_query, grad_key, grad_value] =
      backward(grad, query, key, value, out, logsumexp, dropout, causal, given, scale);
  return {std::move(grad_query), std::move(grad_key), std::move(grad_value), Tensor()};
}

} // namespace

AttentionSize attention_size(const Tensor &query, const Tensor &key, bool causal, bool backward) {
  return {.batch = query.size(0),
          .heads = query.size(1),
          .queries = query.size(2),
          .keys = key.size(2),
          .width = query.size(3),
          .causal = causal,
          .backward = backward};
}

Attention attention_of(const AttentionSize &size, const Tensor &query, const Tensor &key, const Tensor &value,
                       std::optional<double> scale) {
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(size.width)));
  return {size, static_cast<float>(factor), heads_of<const float>(query), heads_of<const float>(key),
          heads_of<const float>(value)};
}

bool forward_by_microkernel(const Attention &attention, const Tensor &out, const Tensor &logsumexp) {
  const SequentialBlasScope blas;
  return attention.forward(openmp_loop, heads_of<float>(out), heads_of<float>(logsumexp));
}

void backward_by_microkernel(const Attention &attention, const Tensor &out, const Tensor &logsumexp, const Tensor &grad,
                             const Tensor &grad_query, const Tensor &grad_key, const Tensor &grad_value) {
  const SequentialBlasScope blas;
  attention.backward(openmp_loop, heads_of<const float>(out), heads_of<const float>(logsumexp),
                     heads_of<const float>(grad), heads_of<float>(grad_query), heads_of<float>(grad_key),
                     heads_of<float>(grad_value));
}

std::vector<std::pair<AttentionSize, bool>> tried_attention() { return autotuner().report(); }

void register_attention(torch::Library &aten) {
  // Flash attention is chosen under the CPU's conditions. PyTorch then calls the first pair of operators below.
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&at::native::_fused_sdp_choice_cpp);
  aten.impl("_scaled_dot_product_flash_attention_for_cpu", &forward);
  aten.impl("_scaled_dot_product_flash_attention_for_cpu_backward", &backward);
  aten.impl("_scaled_dot_product_fused_attention_overrideable", &overrideable);
  aten.impl("_scaled_dot_product_fused_attention_overrideable_backward", &overrideable_backward);
}

} // namespace tb::ops::host
