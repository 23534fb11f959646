// kernels.cu -- mychip's own kernels, which kernels.c launches: each has a struct of arguments, and a thread for each
// element.
#include "mychip.cuh"

struct Gelu {
  const float *from;
  float *to;
  long long count;
};
__global__ void gelu(Gelu a) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < a.count) a.to[i] = 0.5f * a.from[i] * (1 + __builtin_erff(a.from[i] * 0.70710678f));
}
KERNEL(gelu, 256, false)
