// Operators whose results have a size that depends on the data, so that every call waits. Another device's kernel
// computes them, and counts as their native kernel, not as a fallback.
#pragma once
#include <torch/library.h>

namespace tb::ops {

inline constexpr const char *data_dependent_operators[] = {
    "nonzero",  "nonzero.out", "masked_select",      "masked_select.out",
    "_unique2", "unique_dim",  "unique_consecutive", "repeat_interleave.Tensor",
    "bincount"};

using BoxedKernel = void(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack);

template <BoxedKernel *kernel> void register_data_dependent(torch::Library &aten) {
  for (const char *name : data_dependent_operators)
    aten.impl(name, torch::CppFunction::makeFromBoxedFunction<kernel>());
}

// Runs the CPU's kernel on aliases. The host must be allowed to touch device memory.
void run_data_dependent(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack);

} // namespace tb::ops
