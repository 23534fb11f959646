// contract.cu -- the kernels of tb/contract_kernels.h, which the contract kit launches. tb-device has most in CUDA C++.
#include "mychip.cuh"
#include "tb/driver.h"
#pragma GCC visibility push(default) // the variable tb_contract_answer is exported
#include <kernels.cu> // of the installed package tb_device.contract
#pragma GCC visibility pop

LAUNCH_SHARED(unsigned, words)

__global__ void tb_contract_check(unsigned *dst, const unsigned *indices, unsigned limit) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  dst[i] = indices[i] < limit;
  if (!dst[i]) fail(TB_OUT_OF_RANGE, "index out of range");
}

__global__ void tb_contract_fail() { fail(TB_INTERNAL, "the kernel fails as asked"); }

KERNEL(tb_contract_fill, 256, false)
KERNEL(tb_contract_add, 256, false)
KERNEL(tb_contract_index, 256, false)
KERNEL(tb_contract_place, 256, false)
KERNEL(tb_contract_reduce, TB_CONTRACT_BLOCK, true)
KERNEL(tb_contract_arguments, 256, false)
KERNEL(tb_contract_swap, 256, false)
KERNEL(tb_contract_count, 256, false)
KERNEL(tb_contract_reverse, 256, true)
KERNEL(tb_contract_check, 256, false)
KERNEL(tb_contract_fail, 256, false)
