// Runs operators with the CUDA kernels of the installed PyTorch. The kernels get CUDA tensors over the memory of the tb
// tensors, run on the caller's thread and enqueue their work on tb's current stream.
#pragma once
#include <torch/library.h>

#include <string>

#include "runtime/runtime.h"

namespace tb::ops::torch_cuda {

// Whether the driver's memory and streams are CUDA's and PyTorch has kernels for the same devices. If so, it
// initialises PyTorch's CUDA. With TB_CUDA_OPERATORS=own it returns false; with TB_CUDA_OPERATORS=torch it throws
// instead of returning false.
bool serves(const Runtime &runtime);
// Registers the data-dependent operators, and those with a CUDA kernel that PyTorch would compose of others on tb, such
// as the foreach operators. All other operators reach their CUDA kernel through the default kernel
// (dispatch/fallback.h).
void install(torch::Library &aten, torch::Library &autograd);

// Whether this backend serves the open driver.
bool active();
// Returns why this backend does not serve the driver, or "" if it does.
const std::string &reason();

} // namespace tb::ops::torch_cuda
