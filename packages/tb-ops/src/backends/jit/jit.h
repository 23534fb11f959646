// The operators whose kernels are compiled when they first run. They serve drivers with loadable modules whose memory
// the host may not touch. A call with a dtype or shape that the kernels lack goes to the counted CPU fallback.
#pragma once
#include <torch/library.h>

#include "dispatch/call_fallback.h"
#include "runtime/runtime.h"
#include "structured/meta_arguments.h"

namespace tb::ops::jit {

// Whether tb-ops has kernels for the devices of the open driver.
bool serves(const Runtime &runtime);
// Why a driver that loads modules is not served, and what to do; empty if it is, or loads none.
const std::string &missing_compiler();
// Registers all operators. If another backend has set a default kernel, registers only the random operators, so that
// random numbers are bit-identical to those of every other driver.
void install(torch::Library &aten, torch::Library &autograd);

void register_activations(torch::Library &aten);
void register_assertions(torch::Library &aten);
void register_channel_norm(torch::Library &aten);
void register_convolution(torch::Library &aten);
void register_elementwise(torch::Library &aten);
void register_fills(torch::Library &aten);
void register_indexing(torch::Library &aten);
void register_losses(torch::Library &aten);
void register_masks(torch::Library &aten);
void register_matmul(torch::Library &aten);
void register_normalization(torch::Library &aten);
void register_optimizers(torch::Library &aten);
void register_pooling(torch::Library &aten);
void register_random(torch::Library &aten);
void register_rearranging(torch::Library &aten);
void register_recurrent(torch::Library &aten);
void register_reductions(torch::Library &aten);
void register_sampling(torch::Library &aten);
void register_scans(torch::Library &aten);
void register_searching(torch::Library &aten);
void register_sorting(torch::Library &aten);
void register_unique(torch::Library &aten);
void register_upsample(torch::Library &aten);

// Runs work(out) on `out` if that is contiguous, else on a new tensor that is then copied into it.
template <class Work> void with_contiguous(const at::Tensor &out, const Work &work) {
  if (out.is_contiguous()) return work(out);
  at::Tensor made = empty(out.sizes(), {}, out.scalar_type(), device_number(out));
  work(made);
  const_cast<at::Tensor &>(out).copy_(made);
}

} // namespace tb::ops::jit
