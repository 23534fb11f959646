// kernels.cu -- the kernels that operators.c launches: each has a struct of arguments, and a thread for each element.
#include "mychip.cuh"
#include "operators.h"

__global__ void gelu(Gelu a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < a.count) a.to[i] = 0.5f * a.from[i] * (1 + __builtin_erff(a.from[i] * 0.70710678f));
}
KERNEL(gelu, 256, false)
