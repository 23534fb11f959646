// The boxed kernel of operators that nobody registered for the device: the CPU runs them, counted (fallback_stats.h).
#pragma once
#include <torch/library.h>

#include "dispatch/data_dependent.h"

namespace tb::ops {

// One call on the CPU, counted: for kernels that lack a dtype or shape. If the host may touch device memory, the CPU's kernel
// gets aliases over the same storages; otherwise copies, by PyTorch's own fallback. Operators that the CPU lacks too, views of
// copies and tensors that are not dense are refused with the reason.
void counted_fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack);

// A counted call that force_fallback() asked for.
void forced_fallback(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack);

// The kernel of every operator without one of its own: the counted fallback, or what a backend set with set_default_kernel().
void register_fallback();
void set_default_kernel(BoxedKernel *kernel); // once, before the first call
bool has_default_kernel();                    // whether a backend set one

// Convolutions by the default kernel: for drivers without native ones.
void register_convolution_fallback(torch::Library &aten);

} // namespace tb::ops
