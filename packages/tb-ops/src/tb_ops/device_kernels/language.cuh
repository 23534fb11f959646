// The language that the kernels are written in: CUDA C++, or what a shim makes of another compiler's C++.
//
// A shim defines the built-in variables, __shared__, __syncthreads(), atomic_add, require and TB_ENTRY. TB_KERNEL_SHIM
// names another shim to include.
#pragma once
#include "arguments.h"

#if defined(TB_KERNEL_SHIM)
#include TB_KERNEL_SHIM
#elif defined(__CUDACC__)
#include "shim_cuda.cuh"
#else
#include "shim_host.cuh"
#endif

#include "types.cuh"
