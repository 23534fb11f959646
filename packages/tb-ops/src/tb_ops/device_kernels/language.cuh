// The language that the kernels are written in: CUDA C++, or what a shim makes of another compiler's C++.
//
// A shim defines the built-in variables, __shared__, __syncthreads(), atomic_add, require and TB_ENTRY. tb-ops puts the
// shim of the device's compiler in the place of shim.cuh (backends/jit/compiler/source.h). With
// TB_NO_FLOAT64 a shim has nothing of type double.
#pragma once
#include "arguments.h"
#include "shim.cuh"

// The driver says what its device lacks (tb_device_info.lacks), and the source of a kernel then begins with
// TB_NO_FLOAT64 or TB_NO_FMA.
#if defined(TB_NO_FLOAT64) || defined(TB_NO_FMA)
#include "float_pair.cuh"
#endif
#if defined(TB_NO_FLOAT64)
#define TB_FLOAT64(...)
#define double this_device_has_no_float64 // whatever names the type does not compile
#else
#define TB_FLOAT64(...) __VA_ARGS__
#endif

#include "types.cuh"
