/* kernels_host.c -- the kernels of tb/contract_kernels.h for drivers that run shared objects of the host
 * (tb/host_kernel.h). A call runs a block, so a barrier is the end of a loop over its threads. */
#include <stdio.h>

#include "tb/contract_kernels.h"
#include "tb/host_kernel.h"

TB_HOST_EXPORT uint32_t tb_contract_answer = 42;

#define ARGUMENT(number, type) (*(type const *)call->args[number])

TB_HOST_KERNEL(tb_contract_fill) {
  uint32_t *dst = ARGUMENT(0, uint32_t *);
  const uint32_t value = ARGUMENT(1, uint32_t), count = ARGUMENT(2, uint32_t);
  for (uint32_t thread = 0; thread < call->block[0]; ++thread) {
    const uint64_t place = (uint64_t)call->index[0] * call->block[0] + thread;
    if (place < count) dst[place] = value;
  }
  return TB_OK;
}

TB_HOST_KERNEL(tb_contract_add) {
  float *dst = ARGUMENT(0, float *);
  const float *a = ARGUMENT(1, const float *), *b = ARGUMENT(2, const float *);
  const uint32_t count = ARGUMENT(3, uint32_t);
  for (uint32_t thread = 0; thread < call->block[0]; ++thread) {
    const uint64_t place = (uint64_t)call->index[0] * call->block[0] + thread;
    if (place < count) dst[place] = a[place] + b[place];
  }
  return TB_OK;
}

TB_HOST_KERNEL(tb_contract_index) {
  uint32_t *dst = ARGUMENT(0, uint32_t *);
  for (uint32_t thread = 0; thread < call->block[0]; ++thread)
    dst[(uint64_t)call->index[0] * call->block[0] + thread] = call->index[0];
  return TB_OK;
}

TB_HOST_KERNEL(tb_contract_place) {
  uint32_t *dst = ARGUMENT(0, uint32_t *);
  const uint32_t width = call->grid[0] * call->block[0], height = call->grid[1] * call->block[1];
  for (uint32_t z = 0; z < call->block[2]; ++z)
    for (uint32_t y = 0; y < call->block[1]; ++y)
      for (uint32_t x = 0; x < call->block[0]; ++x) {
        const uint32_t *index = call->index;
        const uint32_t row = (index[2] * call->block[2] + z) * height + index[1] * call->block[1] + y;
        dst[row * width + index[0] * call->block[0] + x] = TB_CONTRACT_PLACE(index[0], index[1], index[2], x, y, z);
      }
  return TB_OK;
}

TB_HOST_EXPORT const tb_host_kernel_info tb_contract_reduce_info = {sizeof(tb_host_kernel_info), TB_CONTRACT_BLOCK,
                                                                    TB_CONTRACT_BLOCK * sizeof(uint32_t), 0};

TB_HOST_KERNEL(tb_contract_reduce) {
  const tb_contract_reduction *reduction = call->args[0];
  const uint32_t threads = call->block[0], columns = reduction->columns;
  uint32_t *sums = call->shared;
  for (uint32_t round = 0; round < reduction->rounds; ++round) {
    const uint32_t row = call->index[0] * reduction->rounds + round;
    for (uint32_t thread = 0; thread < threads; ++thread) {
      sums[thread] = 0;
      for (uint32_t column = thread; column < columns; column += threads)
        sums[thread] += reduction->src[row * columns + column] * reduction->weights[column % TB_CONTRACT_WEIGHTS];
    }
    for (uint32_t half = threads / 2; half > 0; half /= 2)
      for (uint32_t thread = 0; thread < half; ++thread) sums[thread] += sums[thread + half];
    reduction->dst[row] = sums[0];
  }
  return TB_OK;
}

TB_HOST_KERNEL(tb_contract_arguments) {
  unsigned long long *dst = ARGUMENT(0, unsigned long long *);
  const tb_contract_wide e = ARGUMENT(5, tb_contract_wide), i = ARGUMENT(10, tb_contract_wide);
  dst[0] = ARGUMENT(1, unsigned char);
  dst[1] = ARGUMENT(2, unsigned long long);
  dst[2] = ARGUMENT(3, unsigned short);
  dst[3] = (unsigned long long)(ARGUMENT(4, float) * 4);
  dst[4] = e.low;
  dst[5] = e.high;
  dst[6] = ARGUMENT(6, unsigned);
  dst[7] = ARGUMENT(7, const unsigned *)[0];
  dst[8] = (unsigned long long)ARGUMENT(8, signed char);
  dst[9] = (unsigned long long)ARGUMENT(9, long long);
  dst[10] = i.low;
  dst[11] = i.high;
  dst[12] = ARGUMENT(11, unsigned);
  return TB_OK;
}

TB_HOST_KERNEL(tb_contract_swap) {
  ARGUMENT(0, uint32_t *)[0] = tb_contract_answer;
  tb_contract_answer = ARGUMENT(1, uint32_t);
  return TB_OK;
}

TB_HOST_KERNEL(tb_contract_count) {
  uint32_t *counts = ARGUMENT(0, uint32_t *);
  const uint32_t bins = ARGUMENT(1, uint32_t);
  for (uint32_t thread = 0; thread < call->block[0]; ++thread)
    __atomic_fetch_add(&counts[(call->index[0] * call->block[0] + thread) % bins], 1, __ATOMIC_RELAXED);
  return TB_OK;
}

TB_HOST_KERNEL(tb_contract_reverse) {
  const uint32_t threads = call->block[0];
  uint32_t *dst = ARGUMENT(0, uint32_t *) + (uint64_t)call->index[0] * threads, *words = call->shared;
  if (call->shared_size < threads * sizeof *words) {
    snprintf(call->error_text, call->error_capacity, "a block of %u threads has no word of shared memory for each",
             threads);
    return TB_OUT_OF_RANGE;
  }
  for (uint32_t thread = 0; thread < threads; ++thread) words[thread] = dst[thread];
  for (uint32_t thread = 0; thread < threads; ++thread) dst[thread] = words[threads - 1 - thread];
  return TB_OK;
}

TB_HOST_KERNEL(tb_contract_check) {
  uint32_t *dst = ARGUMENT(0, uint32_t *);
  const uint32_t *indices = ARGUMENT(1, const uint32_t *), limit = ARGUMENT(2, uint32_t);
  tb_status status = TB_OK;
  for (uint32_t thread = 0; thread < call->block[0]; ++thread) {
    const uint64_t place = (uint64_t)call->index[0] * call->block[0] + thread;
    dst[place] = indices[place] < limit;
    if (!dst[place]) status = TB_OUT_OF_RANGE;
  }
  if (status) snprintf(call->error_text, call->error_capacity, "index out of range");
  return status;
}

TB_HOST_EXPORT const tb_host_kernel_info tb_contract_fail_info = {sizeof(tb_host_kernel_info), 256, 32, 0};

TB_HOST_KERNEL(tb_contract_fail) {
  snprintf(call->error_text, call->error_capacity, "block %u fails as asked", call->index[0]);
  return TB_INTERNAL;
}
