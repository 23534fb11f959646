// Losses that PyTorch's code generator does not generate.
#include "backends/host/iterator_stub.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/binary_cross_entropy_backward_native.h>
#include <ATen/ops/binary_cross_entropy_backward_ops.h>
#include <ATen/ops/binary_cross_entropy_native.h>
#include <ATen/ops/binary_cross_entropy_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_like_ops.h>
#include <ATen/ops/mean_cpu_dispatch.h>
#include <ATen/ops/mse_loss_backward_native.h>
#include <ATen/ops/mse_loss_cpu_dispatch.h>
#include <ATen/ops/mse_loss_ops.h>
#include <ATen/ops/nll_loss2d_backward_native.h>
#include <ATen/ops/nll_loss2d_forward_native.h>
#include <ATen/ops/nll_loss_backward_cpu_dispatch.h>
#include <ATen/ops/smooth_l1_loss_cpu_dispatch.h>
#include <ATen/ops/smooth_l1_loss_ops.h>
#include <ATen/ops/sum_cpu_dispatch.h>

#include <algorithm>
#include <iterator>

#include "backends/host/elementwise/divided.h"
#include "backends/host/host.h"
#include "backends/host/indexing/index_bounds.h"
#include "backends/host/overrides.h"
#include "dispatch/call_checked.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// ---- squared and smooth absolute errors -------------------------------------------------------------------------

bool uniform(const Tensor &one, const Tensor &other) {
  UniformOperands both;
  both.add(one);
  both.add(other);
  return both.good;
}

// Allocates the output of a loss. The structured kernels of these losses resize their output half-way, so the worker
// computes a new tensor and copies it to this one.
Tensor empty_loss(const Tensor &self, const Tensor &target, int64_t reduction) {
  if (reduction != at::Reduction::None && uniform(self, target)) return empty_on(self, {}, self.scalar_type());
  const Tensor undefined;
  auto iterator = at::TensorIterator::borrowing_binary_op(undefined, self, target); // checks as PyTorch does
  if (reduction == at::Reduction::None) return iterator.output();
  return empty_on(iterator.output(), {}, iterator.output().scalar_type());
}

// Computes the loss of each pair of elements, divided among threads, and their mean or sum on the threads of any other
// kernel: on one, unless that takes long, since the last bits of a sum depend on them. Calls each(to, self, target).
template <class Each>
void mean_or_sum(const Tensor &self, const Tensor &target, int64_t reduction, Tensor &out, const Each &each) {
  Tensor losses =
      at::_ops::empty_like::call(self, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
  in_parts(.4, each, losses, self, target);
  if (reduction == at::Reduction::Mean)
    at::cpu::mean_outf(losses, c10::IntArrayRef{}, false, std::nullopt, out);
  else
    at::cpu::sum_outf(losses, c10::IntArrayRef{}, false, std::nullopt, out);
}

// Whether it is worth it. Longer losses get several threads for the sum too.
bool reduces_in_parts(const Tensor &self, const Tensor &target, int64_t reduction) {
  constexpr int64_t most = 1 << 21; // elements: a millisecond
  return (reduction == at::Reduction::Mean || reduction == at::Reduction::Sum) && self.scalar_type() == c10::kFloat &&
         target.scalar_type() == c10::kFloat && self.sizes() == target.sizes() && self.is_contiguous() &&
         target.is_contiguous() && self.numel() <= most;
}

void mse_loss_kernel(Tensor &out, const Tensor &self, const Tensor &target, int64_t reduction) {
  if (!reduces_in_parts(self, target, reduction)) return donating<at::cpu::mse_loss>(out, self, target, reduction);
  mean_or_sum(self, target, reduction, out, [](Tensor &to, const Tensor &from, const Tensor &goal) {
    at::cpu::mse_loss_outf(from, goal, at::Reduction::None, to);
  });
}

// Whether the reduction is one of PyTorch's. The CPU's kernel refuses others.
bool known(int64_t reduction) { return reduction >= at::Reduction::None && reduction < at::Reduction::END; }

Tensor mse_loss(const Tensor &self, const Tensor &target, int64_t reduction) {
  if (!known(reduction)) return call_checked<at::_ops::mse_loss>(self, target, reduction);
  Tensor out = empty_loss(self, target, reduction);
  launch_kernel<"aten::mse_loss", mse_loss_kernel>(device_number(out), out, self, target, reduction);
  return out;
}

void mse_loss_backward_kernel(const Tensor &grad, const Tensor &self, const Tensor &target, int64_t reduction,
                              Tensor &out) {
  at::native::mse_loss_backward_out(grad, self, target, reduction, out);
}

// Computes the usual call without writing zeros first, as PyTorch's own body does.
Tensor mse_loss_backward(const Tensor &grad, const Tensor &self, const Tensor &target, int64_t reduction) {
  if (!uniform(self, target) || grad.scalar_type() != self.scalar_type() || grad.device() != self.device() ||
      !(grad.dim() == 0 || grad.sizes() == self.sizes()))
    return at::native::mse_loss_backward(grad, self, target, reduction);
  Tensor out = empty_on(self, self.sizes(), self.scalar_type());
  launch_kernel<"aten::mse_loss_backward", mse_loss_backward_kernel>(device_number(self), grad, self, target, reduction,
                                                                     out);
  return out;
}

void smooth_l1_loss_kernel(Tensor &out, const Tensor &self, const Tensor &target, int64_t reduction, double beta) {
  if (!reduces_in_parts(self, target, reduction))
    return donating<at::cpu::smooth_l1_loss>(out, self, target, reduction, beta);
  mean_or_sum(self, target, reduction, out, [beta](Tensor &to, const Tensor &from, const Tensor &goal) {
    at::cpu::smooth_l1_loss_outf(from, goal, at::Reduction::None, beta, to);
  });
}

Tensor smooth_l1_loss(const Tensor &self, const Tensor &target, int64_t reduction, double beta) {
  TORCH_CHECK(beta >= 0, "smooth_l1_loss does not support negative values for beta.");
  if (!known(reduction)) return call_checked<at::_ops::smooth_l1_loss>(self, target, reduction, beta);
  Tensor out = empty_loss(self, target, reduction);
  launch_kernel<"aten::smooth_l1_loss", smooth_l1_loss_kernel>(device_number(out), out, self, target, reduction, beta);
  return out;
}

Tensor &give(const Tensor &loss, Tensor &out) {
  TORCH_CHECK(c10::canCast(loss.scalar_type(), out.scalar_type()), "result type ", loss.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  at::assert_no_internal_overlap(out);
  at::native::resize_output(out, loss.sizes());
  return at::_ops::copy_::call(out, loss, false);
}
Tensor &mse_loss_out(const Tensor &self, const Tensor &target, int64_t reduction, Tensor &out) {
  common_device("aten::mse_loss", {&self, &target, &out});
  if (self.is_complex() || target.is_complex()) // the CPU's kernel refuses them with its own exception
    return call_checked<at::_ops::mse_loss_out>(self, target, reduction, out);
  return give(host::mse_loss(self, target, reduction), out);
}
Tensor &smooth_l1_loss_out(const Tensor &self, const Tensor &target, int64_t reduction, double beta, Tensor &out) {
  common_device("aten::smooth_l1_loss", {&self, &target, &out});
  if (self.is_complex() || target.is_complex())
    return call_checked<at::_ops::smooth_l1_loss_out>(self, target, reduction, beta, out);
  return give(host::smooth_l1_loss(self, target, reduction, beta), out);
}

// ---- binary cross entropy ---------------------------------------------------------------------------------------

// Whether a call is like those of nn.BCELoss. Other calls (shapes that differ by dimensions of size 1, other dtypes,
// unknown reductions) run the CPU's kernel and wait for it, so that they return or raise exactly what it does.
bool usual_bce(const Tensor &self, const OptionalTensor &weight, int64_t reduction,
               std::initializer_list<const Tensor *> others) {
  const auto like_self = [&](const Tensor *other) {
    return other->sizes() == self.sizes() && other->scalar_type() == self.scalar_type();
  };
  return c10::isFloatingType(self.scalar_type()) && known(reduction) &&
         std::all_of(others.begin(), others.end(), like_self) &&
         (!weight || !weight->defined() ||
          (weight->scalar_type() == self.scalar_type() && at::is_expandable_to(weight->sizes(), self.sizes())));
}

void bce_kernel(const Tensor &self, const Tensor &target, const OptionalTensor &weight, int64_t reduction,
                Tensor &out) {
  // With a reduction, the out= function would resize its output.
  if (reduction == at::Reduction::None)
    at::native::binary_cross_entropy_out_cpu(self, target, weight, reduction, out);
  else
    copy_result(out, at::native::binary_cross_entropy_cpu(self, target, weight, reduction));
}

Tensor binary_cross_entropy(const Tensor &self, const Tensor &target, const OptionalTensor &weight, int64_t reduction) {
  const c10::DeviceIndex device =
      common_device("aten::binary_cross_entropy", {&self, &target, &value_or_undefined(weight)});
  if (!usual_bce(self, weight, reduction, {&target}))
    return call_checked<at::_ops::binary_cross_entropy>(self, target, weight, reduction);
  Tensor out = reduction == at::Reduction::None ? empty_preserving(self, self.scalar_type())
                                                : empty_on(self, {}, self.scalar_type());
  launch_kernel<"aten::binary_cross_entropy", bce_kernel>(device, self, target, weight, reduction, out);
  return out;
}

Tensor &binary_cross_entropy_out(const Tensor &self, const Tensor &target, const OptionalTensor &weight,
                                 int64_t reduction, Tensor &out) {
  const c10::DeviceIndex device =
      common_device("aten::binary_cross_entropy", {&self, &target, &value_or_undefined(weight), &out});
  if (!usual_bce(self, weight, reduction, {&target}) || out.scalar_type() != self.scalar_type())
    return call_checked<at::_ops::binary_cross_entropy_out>(self, target, weight, reduction, out);
  at::native::resize_output(out, reduction == at::Reduction::None ? self.sizes() : c10::IntArrayRef());
  launch_kernel<"aten::binary_cross_entropy", bce_kernel>(device, self, target, weight, reduction, out);
  return out;
}

// Does the same for the backward pass. After a reduction the gradient may be a single number.
bool usual_bce_backward(const Tensor &grad, const Tensor &self, const Tensor &target, const OptionalTensor &weight,
                        int64_t reduction) {
  return usual_bce(self, weight, reduction, {&target}) && grad.scalar_type() == self.scalar_type() &&
         (grad.sizes() == self.sizes() || (grad.dim() == 0 && reduction != at::Reduction::None));
}

void bce_backward_kernel(const Tensor &grad, const Tensor &self, const Tensor &target, const OptionalTensor &weight,
                         int64_t reduction, Tensor &out) {
  at::native::binary_cross_entropy_backward_out_cpu(grad, self, target, weight, reduction, out);
}

Tensor binary_cross_entropy_backward(const Tensor &grad, const Tensor &self, const Tensor &target,
                                     const OptionalTensor &weight, int64_t reduction) {
  const c10::DeviceIndex device =
      common_device("aten::binary_cross_entropy_backward", {&grad, &self, &target, &value_or_undefined(weight)});
  if (!usual_bce_backward(grad, self, target, weight, reduction))
    return call_checked<at::_ops::binary_cross_entropy_backward>(grad, self, target, weight, reduction);
  Tensor out = empty_preserving(self, self.scalar_type());
  launch_kernel<"aten::binary_cross_entropy_backward", bce_backward_kernel>(device, grad, self, target, weight,
                                                                            reduction, out);
  return out;
}

Tensor &binary_cross_entropy_backward_out(const Tensor &grad, const Tensor &self, const Tensor &target,
                                          const OptionalTensor &weight, int64_t reduction, Tensor &out) {
  const c10::DeviceIndex device =
      common_device("aten::binary_cross_entropy_backward", {&grad, &self, &target, &value_or_undefined(weight), &out});
  if (!usual_bce_backward(grad, self, target, weight, reduction) || out.scalar_type() != self.scalar_type())
    return call_checked<at::_ops::binary_cross_entropy_backward_grad_input>(grad, self, target, weight, reduction, out);
  at::native::resize_output(out, self.sizes());
  launch_kernel<"aten::binary_cross_entropy_backward", bce_backward_kernel>(device, grad, self, target, weight,
                                                                            reduction, out);
  return out;
}

// ---- negative log likelihood over images ------------------------------------------------------------------------

void check_nll2d(const Tensor &self, const Tensor &target, const Tensor &weight) {
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(!weight.defined() || weight.numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}

void nll2d_kernel(const Tensor &self, const Tensor &target, const OptionalTensor &weight, int64_t reduction,
                  int64_t ignored, Tensor &out, Tensor &total) {
  at::native::nll_loss2d_forward_out_cpu(self, target, weight, reduction, ignored, out, total);
}

std::tuple<Tensor, Tensor> nll_loss2d_forward(const Tensor &self, const Tensor &target, const OptionalTensor &weight,
                                              int64_t reduction, int64_t ignored) {
  check_nll2d(self, target, value_or_undefined(weight));
  const c10::DeviceIndex device =
      common_device("aten::nll_loss2d_forward", {&self, &target, &value_or_undefined(weight)});
  Tensor out = reduction == at::Reduction::None ? empty_on(self, target.sizes(), self.scalar_type())
                                                : empty_on(self, {}, self.scalar_type());
  Tensor total = empty_on(self, {}, self.scalar_type());
  launch_kernel<"aten::nll_loss2d_forward", nll2d_kernel>(device, self, target, weight, reduction, ignored, out, total);
  return {std::move(out), std::move(total)};
}

void nll2d_backward_kernel(const Tensor &grad, const Tensor &self, const Tensor &target, const OptionalTensor &weight,
                           int64_t reduction, int64_t ignored, const Tensor &total, Tensor &out) {
  check_bounds(target, self.size(1), "nll_loss2d_backward", ignored);
  at::native::nll_loss2d_backward_out_cpu(grad, self, target, weight, reduction, ignored, total, out);
}

Tensor nll_loss2d_backward(const Tensor &grad, const Tensor &self, const Tensor &target, const OptionalTensor &weight,
                           int64_t reduction, int64_t ignored, const Tensor &total) {
  check_nll2d(self, target, value_or_undefined(weight));
  const c10::DeviceIndex device =
      common_device("aten::nll_loss2d_backward", {&grad, &self, &target, &total, &value_or_undefined(weight)});
  Tensor out = empty_preserving(self, self.scalar_type());
  launch_kernel<"aten::nll_loss2d_backward", nll2d_backward_kernel>(device, grad, self, target, weight, reduction,
                                                                    ignored, total, out);
  return out;
}

} // namespace

namespace cpu {
void nll_loss_backward_outf(const Tensor &grad, const Tensor &self, const Tensor &target, const OptionalTensor &weight,
                            int64_t reduction, int64_t ignored, const Tensor &total, Tensor &out) {
  check_bounds(target, self.size(-1), "nll_loss_backward", ignored);
  at::cpu::nll_loss_backward_outf(grad, self, target, weight, reduction, ignored, total, out);
}
} // namespace cpu

void register_losses(torch::Library &aten) {
  enter_stub<"aten::mse_loss_backward", at::native::mse_backward_stub, Types::promote_all>();
  enter_stub<"aten::smooth_l1_loss_backward", at::native::smooth_l1_backward_stub, Types::promote_all>();
  enter_stub<"aten::huber_loss", at::native::huber_stub, Types::promote_all>();
  enter_stub<"aten::huber_loss_backward", at::native::huber_backward_stub, Types::promote_all>();
  aten.impl("mse_loss", &mse_loss);
  aten.impl("mse_loss_backward", &mse_loss_backward);
  aten.impl("mse_loss.out", &mse_loss_out);
  aten.impl("smooth_l1_loss", &smooth_l1_loss);
  aten.impl("smooth_l1_loss.out", &smooth_l1_loss_out);
  aten.impl("binary_cross_entropy", &binary_cross_entropy);
  aten.impl("binary_cross_entropy.out", &binary_cross_entropy_out);
  aten.impl("binary_cross_entropy_backward.grad_input", &binary_cross_entropy_backward_out);
  aten.impl("binary_cross_entropy_backward", &binary_cross_entropy_backward);
  aten.impl("nll_loss2d_forward", &nll_loss2d_forward);
  aten.impl("nll_loss2d_backward", &nll_loss2d_backward);
}

} // namespace tb::ops::host
