// contract_kernels.cu -- the kernels of packages/tb-device/contract/kernels.h, in CUDA C++.
//
// For a GPU they are compiled by nvcc -cubin or -fatbin, for the simulation by compile_image.py. tb_contract_fail is
// left out, because a failing kernel makes its whole context unusable.
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
}
