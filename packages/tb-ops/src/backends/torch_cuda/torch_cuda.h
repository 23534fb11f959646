// Operators by the installed PyTorch's own CUDA kernels: tb tensors become CUDA tensors over the same bytes, and the kernels run
// on the caller's thread and enqueue their work on tb's current stream.
#pragma once
#include <torch/library.h>

#include <string>

#include "runtime/runtime.h"

namespace tb::ops::torch_cuda {

// Whether the driver's memory and streams are CUDA's and PyTorch has kernels for the same devices; then PyTorch's CUDA is
// initialised. TB_CUDA_OPERATORS=own: never; =torch: always, and throws if that cannot be.
bool serves(const Runtime &runtime);
// Operators that wait by their nature, and those with a CUDA kernel that PyTorch would compose of others on tb, such as foreach
// ones. All other operators reach their CUDA kernel through the default kernel (dispatch/fallback.h).
void install(torch::Library &aten, torch::Library &autograd);

// Whether it serves the open driver.
bool active();
// Why it does not; "" if it does.
const std::string &reason();

} // namespace tb::ops::torch_cuda
