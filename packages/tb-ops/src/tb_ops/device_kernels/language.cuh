// The language that the kernels are written in: CUDA C++, or what a shim makes of another compiler's C++.
//
// A shim defines the built-in variables, __shared__, __syncthreads(), atomic_add, require and TB_ENTRY. tb-ops puts the
// shim of the device's compiler in the place of shim.cuh (backends/jit/compiler/source.h).
#pragma once
#include "arguments.h"
#include "shim.cuh"

#include "types.cuh"
