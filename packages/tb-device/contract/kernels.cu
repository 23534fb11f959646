// kernels.cu -- the kernels of tb/contract_kernels.h in CUDA C++.
//
// kernels_cuda.ptx is made of them for NVIDIA's devices; the simulated libcuda has them by compile_image.py.
// tb_contract_check and tb_contract_fail are left out, because a failing kernel makes its whole context unusable.
#include "tb/contract_kernels.h"

extern "C" {

__device__ unsigned tb_contract_answer = 42;

__global__ void tb_contract_fill(unsigned *dst, unsigned value, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) dst[i] = value;
}

__global__ void tb_contract_add(float *dst, const float *a, const float *b, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) dst[i] = a[i] + b[i];
}

__global__ void tb_contract_index(unsigned *dst) { dst[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x; }

__global__ void tb_contract_place(unsigned *dst) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
  const unsigned width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
  dst[(z * height + y) * width + x] =
      TB_CONTRACT_PLACE(blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
}

__global__ void tb_contract_reduce(tb_contract_reduction reduction) {
  __shared__ unsigned sums[TB_CONTRACT_BLOCK];
  const unsigned thread = threadIdx.x;
  for (unsigned round = 0; round < reduction.rounds; ++round) {
    const unsigned row = blockIdx.x * reduction.rounds + round;
    unsigned sum = 0;
    for (unsigned column = thread; column < reduction.columns; column += blockDim.x)
      sum += reduction.src[row * reduction.columns + column] * reduction.weights[column % TB_CONTRACT_WEIGHTS];
    sums[thread] = sum;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
      __syncthreads();
      if (thread < half) sums[thread] += sums[thread + half];
    }
    if (thread == 0) reduction.dst[row] = sums[0];
    __syncthreads();
  }
}

__global__ void tb_contract_arguments(unsigned long long *dst, unsigned char a, unsigned long long b, unsigned short c,
                                      float d, tb_contract_wide e, unsigned f, const unsigned *src, signed char g,
                                      long long h, tb_contract_wide i, unsigned j) {
  dst[0] = a;
  dst[1] = b;
  dst[2] = c;
  dst[3] = static_cast<unsigned long long>(d * 4);
  dst[4] = e.low;
  dst[5] = e.high;
  dst[6] = f;
  dst[7] = src[0];
  dst[8] = static_cast<unsigned long long>(static_cast<long long>(g));
  dst[9] = static_cast<unsigned long long>(h);
  dst[10] = i.low;
  dst[11] = i.high;
  dst[12] = j;
}

__global__ void tb_contract_swap(unsigned *dst, unsigned value) {
  dst[0] = tb_contract_answer;
  tb_contract_answer = value;
}

__global__ void tb_contract_count(unsigned *counts, unsigned bins) {
  atomicAdd(&counts[(blockIdx.x * blockDim.x + threadIdx.x) % bins], 1u);
}

__global__ void tb_contract_reverse(unsigned *dst) {
  extern __shared__ unsigned words[];
  const unsigned first = blockIdx.x * blockDim.x, thread = threadIdx.x;
  words[thread] = dst[first + thread];
  __syncthreads();
  dst[first + thread] = words[blockDim.x - 1 - thread];
}
}
