/* kernels_host.c -- the kernels of kernels.h for drivers that run shared objects of the host (tb/host_kernel.h). */
#include <stdio.h>

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

TB_HOST_EXPORT const tb_host_kernel_info tb_contract_fail_info = {sizeof(tb_host_kernel_info), 256, 32, 0};

TB_HOST_KERNEL(tb_contract_fail) {
  snprintf(call->error_text, call->error_capacity, "block %u fails as asked", call->index[0]);
  return TB_INTERNAL;
}
