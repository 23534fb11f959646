// The boxed kernel of operators that have none for the device. The CPU runs them, and the calls are counted
// (fallback_stats.h).
#pragma once
#include <torch/library.h>

#include "dispatch/data_dependent.h"

namespace tb::ops {

// Runs one call on the CPU and counts it. Kernels call it for dtypes and shapes that they lack. If the host may touch
// device memory, the CPU's kernel gets aliases over the same storages; otherwise PyTorch's own fallback gives it
// copies. Operators that the CPU lacks too, views of copies and tensors that are not dense are refused with the reason.
void counted_fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack);

// Runs and counts a call that force_fallback() asked for.
void forced_fallback(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack);

// Registers the kernel of every operator without one of its own: the counted fallback, or the kernel that a backend set
// with set_default_kernel().
void register_fallback();
void set_default_kernel(BoxedKernel *kernel); // once, before the first call
bool has_default_kernel();                    // whether a backend set one

// Makes the default kernel run an operator whose body in PyTorch refuses devices that it does not know.
void register_default_kernel(torch::Library &aten, const char *name);
// Makes the default kernel run convolutions, for drivers without native ones.
void register_convolution_fallback(torch::Library &aten);

} // namespace tb::ops
