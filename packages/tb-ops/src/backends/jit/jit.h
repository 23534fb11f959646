// The device's own operators by topic: registered for drivers with loadable modules whose memory the host may not touch.
// Operators of a type or shape that the kernels lack go to the counted CPU fallback, call by call.
#pragma once
#include <torch/library.h>

#include "dispatch/call_fallback.h"

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

// Runs work(out) on `out` where that is contiguous, else on a new tensor that is then copied into it.
template <class Work> void with_contiguous(const at::Tensor &out, const Work &work) {
  if (out.is_contiguous()) return work(out);
  at::Tensor made = empty(out.sizes(), {}, out.scalar_type(), device_number(out));
  work(made);
  const_cast<at::Tensor &>(out).copy_(made);
}

} // namespace tb::device
