/* operators.c -- the operators of PyTorch that mychip computes itself, by kernels of kernels.cu. Each entry is one operator,
 * named by its overload with out=; what no entry takes runs as without it. */
#include "operators.h"

#include "driver.h"

static int64_t elements(const tb_kernel_tensor *tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor->dims; ++i) count *= tensor->sizes[i];
  return count;
}

/* ---- gelu.out(Tensor self, *, str approximate, Tensor out) --------------------------------------------------------- */

static tb_status plan_gelu(void *self, const tb_kernel_call *call, uint64_t *workspace_size, void **plan) {
  (void)workspace_size, (void)plan;
  if (strcmp(call->arguments[1].text, "none") == 0) return TB_OK;
  return tb_fail(((tb_driver *)self)->host, TB_UNSUPPORTED, "mychip has the exact form only");
}

static tb_status run_gelu(void *self, const tb_kernel_call *call) {
  const Gelu gelu = {call->arguments[0].tensors->data, call->outputs->data, elements(call->outputs)};
  return queue_kernel(self, call, "gelu", &gelu, sizeof gelu, gelu.count);
}

/* ---- The table ----------------------------------------------------------------------------------------------------- */

const tb_kernel operators[] = {
    {.struct_size = sizeof(tb_kernel),
     .name = "mychip.gelu",
     .operation = "aten::gelu.out",
     .dtypes = TB_DTYPE_BIT(TB_DTYPE_FLOAT32),
     .layouts = TB_LAYOUT_DENSE,
     .flags = TB_KERNEL_MAKE_DENSE | TB_KERNEL_CAPTURABLE,
     .plan = plan_gelu,
     .run = run_gelu},
};
const uint32_t operator_count = sizeof operators / sizeof *operators;
