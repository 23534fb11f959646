/* A table for the cpu driver with the kernel of devops::mix.rows (device_operators.yaml). */
#include <string.h>

#include "tb/kernels.h"

static tb_kernels_host host;

/* The memory is the host's, so that the kernel computes when earlier work is done. */
static tb_status run_mix(void *self, const tb_kernel_call *call) {
  (void)self;
  const tb_status status = host.driver->stream_synchronize(host.self, call->stream);
  if (status != TB_OK) return status;
  const tb_kernel_tensor *x = call->arguments[0].tensors, *out = &call->outputs[0], *norm = &call->outputs[1];
  const float weight = (float)call->arguments[1].numbers->real;
  for (int64_t i = 0; i < x->sizes[0]; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < x->sizes[1]; ++j) {
      const float value = ((float *)x->data)[i * x->sizes[1] + j];
      ((float *)out->data)[i * x->sizes[1] + j] = value * weight;
      sum += value;
    }
    ((float *)norm->data)[i] = sum;
  }
  return TB_OK;
}

static const tb_kernel kernel = {.struct_size = sizeof kernel,
                                 .name = "devops.mix",
                                 .operation = "devops::mix.rows_out",
                                 .dtypes = TB_DTYPE_BIT(TB_DTYPE_FLOAT32),
                                 .layouts = TB_LAYOUT_DENSE,
                                 .run = run_mix};

TB_EXPORT tb_status tb_kernels_open(const tb_kernels_host *given, tb_kernels *table) {
  host = *given;
  tb_driver_info info = {.struct_size = sizeof info};
  if (host.driver->get_info(host.self, &info) != TB_OK) return TB_INTERNAL;
  if (strcmp(info.name, "cpu") != 0) return TB_UNSUPPORTED;
  table->kernels = &kernel;
  table->kernel_count = 1;
  table->kernel_size = sizeof kernel;
  return TB_OK;
}
