// The device's own operators by topic: registered for drivers with loadable modules whose memory the host may not touch.
// Operators of a type or shape that the kernels lack go to the counted CPU fallback, call by call.
#pragma once
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include "fallback.h"
#include "structured.h"

namespace tb::device {

// Whether tb-ops has kernels for the devices of the open driver.
bool available();
void register_all(torch::Library &aten);

void register_elementwise(torch::Library &aten);
void register_fills(torch::Library &aten);
void register_indexing(torch::Library &aten);
void register_losses(torch::Library &aten);
void register_matmul(torch::Library &aten);
void register_normalization(torch::Library &aten);
void register_optimizers(torch::Library &aten);
void register_random(torch::Library &aten);
void register_reductions(torch::Library &aten);

// The counted fallback for one call: fall_back<at::_ops::add_out>(self, other, alpha, out).
template <class Op, class... Arguments> decltype(auto) fall_back(Arguments &&...arguments) {
  return at::native::call_fallback_fn<&counted_fallback, Op>::call(std::forward<Arguments>(arguments)...);
}

template <class Meta, size_t outputs = 1> using Out = Structured<Meta, Schema::out, outputs>;

// What a meta function takes in place of an operator's optional arguments.
template <class Argument> const Argument &meta_argument(const Argument &argument) { return argument; }
inline at::OptionalScalarRef meta_argument(const std::optional<at::Scalar> &value) {
  return value ? at::OptionalScalarRef(*value) : at::OptionalScalarRef();
}
inline at::OptionalTensorRef meta_argument(const std::optional<at::Tensor> &tensor) {
  return tensor && tensor->defined() ? at::OptionalTensorRef(*tensor) : at::OptionalTensorRef();
}

// Runs work(out) on `out` where that is contiguous, else on a new tensor that is then copied into it.
template <class Work> void with_contiguous(const at::Tensor &out, const Work &work) {
  if (out.is_contiguous()) return work(out);
  at::Tensor made = empty(out.sizes(), {}, out.scalar_type(), device_number(out));
  work(made);
  const_cast<at::Tensor &>(out).copy_(made);
}

} // namespace tb::device
