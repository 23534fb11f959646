// Runs operators with the CUDA kernels of the installed PyTorch. The kernels get CUDA tensors over the memory of the tb
// tensors, run on the caller's thread and enqueue their work on tb's current stream.
#pragma once
#include <string>

#include "tb/operator_backend.h"

namespace tb::ops::torch_cuda {

// Serves drivers whose memory and streams are CUDA's if PyTorch has kernels for the same devices, and then initialises
// PyTorch's CUDA. With TB_CUDA_OPERATORS=own it serves none; with TB_CUDA_OPERATORS=torch it throws where it cannot
// serve. It registers the data-dependent operators, and those with a CUDA kernel that PyTorch would compose of others on
// tb, such as the foreach operators. All other operators reach their CUDA kernel through the default kernel
// (dispatch/fallback.h).
extern const tb_operator_backend backend;

// Whether this backend serves the open driver.
bool active();
// Returns why this backend does not serve the driver, or "" if it does.
const std::string &reason();

} // namespace tb::ops::torch_cuda
