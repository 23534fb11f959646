// Linear layers in eager mode: one launch forward and one backward.
//
// PyTorch composes linear() of a transpose and a matrix product, each with its node in the graph, and its backward pass
// of eight views, two products and a sum. The products here are the same, so the results are bit-identical, and the
// calling thread has less work. PyTorch's composition computes calls that something must observe (modes, transforms,
// tensor subclasses, hooks on saved tensors, forward-mode derivatives, gradients of gradients, compiled autograd) and
// calls with unusual arguments.
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/sum_cpu_dispatch.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <climits>

#include "backends/host/dispatch_transparency.h"
#include "backends/host/gemm/parallel_gemm.h"
#include "backends/host/host.h"
#include "intraop/thread_policy.h"
#include "tb/gradient_node.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
namespace autograd = torch::autograd;

bool fused(const Tensor &input, const Tensor &weight, const Tensor &bias) {
  if (input.dim() < 2 || weight.dim() != 2 || input.size(-1) != weight.size(1) || input.numel() == 0 ||
      weight.numel() == 0 || !input.is_contiguous() || !weight.is_contiguous())
    return false;
  const auto like_input = [&](const Tensor &tensor) {
    return tensor.scalar_type() == input.scalar_type() && tensor.device() == input.device() &&
           !tensor._fw_grad(0).defined();
  };
  if (!c10::isFloatingType(input.scalar_type()) || !like_input(input) || !like_input(weight)) return false;
  return !bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0) && like_input(bias));
}

// Returns the tensor as a matrix whose rows are its last dimension.
Tensor rows(const Tensor &tensor) { return tensor.dim() == 2 ? tensor : tensor.reshape({-1, tensor.size(-1)}); }

bool has_observers() { return at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value(); }

// Shows the profiler a product that a launch computes, as PyTorch's composition would: the profiler counts floating-point
// operations by these names and sizes.
template <class... Tensors> void report_product(const char *name, const Tensors &...tensors) {
  at::RecordFunction event(at::RecordScope::FUNCTION);
  if (!event.isActive()) return;
  const std::array<const c10::IValue, sizeof...(tensors)> inputs{c10::IValue(tensors)...};
  event.before(name, c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
}

template <class T> const T *data(const Tensor &tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}

// Whether ParallelGemm computes products of matrices with these sizes.
bool direct(c10::ScalarType type, std::initializer_list<int64_t> sizes) {
  const auto [least, most] = std::minmax(sizes);
  return least > 1 && most <= INT_MAX && supports_gemm(type);
}

template <class T> void multiply_forward(const Tensor &input, const Tensor &weight, const Tensor &bias, Tensor &out) {
  const int64_t outputs = weight.size(0), k = weight.size(1);
  ParallelGemm<T>{.rows = input.numel() / k,
                  .columns = outputs,
                  .k = k,
                  .left = {data<T>(input), k},
                  .right = {data<T>(weight), k, true},
                  .out = out.mutable_data_ptr<T>(),
                  .bias = data<T>(bias)}
      .run_shared();
}

void forward_kernel(const Tensor &input, const Tensor &weight, const Tensor &bias, Tensor &out) {
  const c10::ScalarType type = input.scalar_type();
  if (direct(type, {input.numel() / weight.size(1), weight.size(0), weight.size(1)}) &&
      (!bias.defined() || bias.is_contiguous()))
    return type == c10::kFloat ? multiply_forward<float>(input, weight, bias, out)
                               : multiply_forward<double>(input, weight, bias, out);
  Tensor flat = rows(out);
  if (bias.defined())
    at::cpu::addmm_out(flat, bias, rows(input), weight.t());
  else
    at::cpu::mm_out(flat, rows(input), weight.t());
}

// `grad` is a matrix of rows. A gradient that is not needed is undefined. So is `weight` if grad_input is not needed,
// and `input` if grad_weight is not needed.
template <class T> void multiply_backward(const Tensor &grad, const Tensor &input, const Tensor &weight,
                                          Tensor &grad_input, Tensor &grad_weight, Tensor &grad_bias) {
  const int64_t rows = grad.size(0), outputs = grad.size(1);
  std::optional<ParallelGemm<T>> by_weight, by_input;
  if (grad_input.defined())
    by_weight = {.rows = rows,
                 .columns = weight.size(1),
                 .k = outputs,
                 .left = {data<T>(grad), outputs},
                 .right = {data<T>(weight), weight.size(1)},
                 .out = grad_input.mutable_data_ptr<T>()};
  if (grad_weight.defined())
    by_input = {.rows = outputs,
                .columns = grad_weight.size(1),
                .k = rows,
                .left = {data<T>(grad), outputs, true},
                .right = {data<T>(input), grad_weight.size(1)},
                .out = grad_weight.mutable_data_ptr<T>()};
  double nanoseconds = 0;
  int64_t most = INT64_MAX;
  for (const auto &product : {by_weight, by_input})
    if (product) {
      nanoseconds += product->nanoseconds();
      most = std::min(most, product->most_parts());
    }
  const int64_t parts = intraop.parts(most, nanoseconds);
  const bool identical =
      (!by_weight || by_weight->parts_are_identical(parts)) && (!by_input || by_input->parts_are_identical(parts));
  intraop.share(identical ? parts : 1, [&](int64_t i, int64_t count) {
    if (by_weight) by_weight->run(i, count);
    if (by_input) by_input->run(i, count);
    if (i + 1 == count && grad_bias.defined()) at::cpu::sum_out(grad_bias, grad, 0);
  });
}

void backward_kernel(const Tensor &grad, const Tensor &input, const Tensor &weight, Tensor &grad_input,
                     Tensor &grad_weight, Tensor &grad_bias) {
  const Tensor flat = rows(grad);
  const c10::ScalarType type = grad.scalar_type();
  const int64_t k = grad_input.defined() ? weight.size(1) : grad_weight.defined() ? grad_weight.size(1) : 0;
  if (flat.is_contiguous() && direct(type, {flat.size(0), flat.size(1), k}))
    return type == c10::kFloat ? multiply_backward<float>(flat, input, weight, grad_input, grad_weight, grad_bias)
                               : multiply_backward<double>(flat, input, weight, grad_input, grad_weight, grad_bias);
  if (grad_input.defined()) {
    Tensor out = rows(grad_input);
    at::cpu::mm_out(out, flat, weight);
  }
  if (grad_weight.defined()) at::cpu::mm_out(grad_weight, flat.t(), rows(input));
  if (grad_bias.defined()) at::cpu::sum_out(grad_bias, flat, 0);
}

// Its edges are in the order in which the composition accumulates gradients, because DistributedDataParallel lays out
// its buckets in that order: the bias comes first. The input comes before the weight, which the composition transposes,
// unless it also flattens the input, to add a bias to the product of matrices.
class LinearBackward final : public GradientNode<LinearBackward> {
public:
  LinearBackward(const Tensor &input, const Tensor &weight, const Tensor &bias)
      : device_(input.device()), type_(input.scalar_type()), input_edge_(bias.defined() && input.dim() > 2 ? 2 : 1) {
    set_next_edges(input_edge_ == 1 ? autograd::collect_next_edges(bias, input, weight)
                                    : autograd::collect_next_edges(bias, weight, input));
    const auto input_edge = static_cast<size_t>(input_edge_);
    if (should_compute_output(input_edge)) weight_ = autograd::SavedVariable(weight, false);
    if (should_compute_output(3 - input_edge)) input_ = autograd::SavedVariable(input, false);
    input_sizes_ = input.sizes();
    outputs_ = weight.size(0);
  }

  std::string name() const override { return "LinearBackward0"; } // PyTorch's name for its own node

  template <class Self> static auto state(Self &self) { return std::tie(self.input_, self.weight_, self.input_edge_); }

  static variable_list gradients(const variable_list &grads, const Wanted &wanted, const Tensor &input,
                                 const Tensor &weight, int64_t input_edge) {
    variable_list made(3);
    const Tensor &grad = grads[0];
    if (!grad.defined()) return made;
    const auto i = static_cast<size_t>(input_edge), w = 3 - i;
    if (wanted[bias_edge]) made[bias_edge] = symbolic_rows(grad).sum(0);
    if (wanted[i]) made[i] = grad.matmul(weight);
    if (wanted[w]) made[w] = symbolic_rows(grad).t().mm(symbolic_rows(input));
    return made;
  }

  variable_list apply(variable_list &&grads) override {
    const std::lock_guard lock(mutex_);
    const Tensor &grad = grads[0];
    if (!grad.defined() || c10::GradMode::is_enabled() || !can_bypass_dispatch(keys_of(grad)) ||
        grad.scalar_type() != type_ || grad.device() != device_)
      return by_formula(grads);
    const auto input_edge = static_cast<size_t>(input_edge_), weight_edge = 3 - input_edge;
    variable_list made(3);
    Tensor &grad_bias = made[bias_edge], &grad_input = made[input_edge], &grad_weight = made[weight_edge];
    const bool need_input = task_should_compute_output(input_edge),
               need_weight = task_should_compute_output(weight_edge), need_bias = task_should_compute_output(bias_edge);
    const Tensor weight = need_input ? weight_.unpack() : Tensor(), input = need_weight ? input_.unpack() : Tensor();
    if (has_observers()) report_products(grad, input, weight);
    const c10::DeviceIndex device = device_.index();
    if (need_input) grad_input = empty(input_sizes_, {}, type_, device);
    if (need_weight) grad_weight = empty({outputs_, input_sizes_.back()}, {}, type_, device);
    if (need_bias) grad_bias = empty({outputs_}, {}, type_, device);
    launch_kernel<"aten::linear_backward", backward_kernel>(device, grad, input, weight, grad_input, grad_weight,
                                                            grad_bias);
    return made;
  }

private:
  static Tensor symbolic_rows(const Tensor &tensor) {
    return tensor.dim() == 2 ? tensor : tensor.reshape_symint({-1, tensor.sym_size(-1)});
  }
  static void report_products(const Tensor &grad, const Tensor &input, const Tensor &weight) {
    const c10::NoGradGuard no_gradients;
    const Tensor flat = rows(grad);
    if (weight.defined()) report_product("aten::mm", flat, weight);
    if (input.defined()) report_product("aten::mm", flat.t(), rows(input));
  }

  autograd::SavedVariable input_, weight_;
  c10::DimVector input_sizes_;
  int64_t outputs_ = 0;
  c10::Device device_;
  c10::ScalarType type_;
  static constexpr size_t bias_edge = 0;
  int64_t input_edge_; // the weight's edge is the other of 1 and 2
};

void report_forward(const Tensor &input, const Tensor &weight, const Tensor &bias) {
  const c10::NoGradGuard no_gradients;
  if (bias.defined())
    report_product("aten::addmm", bias, rows(input), weight.t());
  else
    report_product("aten::mm", rows(input), weight.t());
}

Tensor linear(c10::DispatchKeySet keys, const Tensor &input, const Tensor &weight, const OptionalTensor &bias_given) {
  const Tensor &bias = value_or_undefined(bias_given);
  if (!can_bypass_dispatch(keys) || has_saved_tensor_hooks() || !fused(input, weight, bias))
    return at::native::linear(input, weight, bias_given);
  c10::DimVector sizes(input.sizes());
  sizes.back() = weight.size(0);
  Tensor out = empty(sizes, {}, input.scalar_type(), device_number(input));
  if (has_observers()) report_forward(input, weight, bias);
  launch_kernel<"aten::linear", forward_kernel>(device_number(input), input, weight, bias, out);
  if (autograd::compute_requires_grad(input, weight, bias)) {
    const auto node = c10::make_intrusive<LinearBackward>(input, weight, bias);
    autograd::set_history(out, node);
    report_new_node(node);
  }
  return out;
}

} // namespace

// Registers linear() on the autograd key, because it records its own node.
void register_linear(torch::Library &autograd_library) { autograd_library.impl("linear", &linear); }

} // namespace tb::ops::host
