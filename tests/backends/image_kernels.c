/* Kernels of an image for the drivers that run kernels on the host, with the parameters of tb/image_kernel.h. */
#include <string.h>

#include "tb/host_kernel.h"
#include "tb/image_kernel.h"

/* Copies the values of the parameters, which are aligned to 16. */
#define TENSOR(name, i)                                                                                                \
  tb_image_tensor name;                                                                                                \
  memcpy(&name, call->args[i], sizeof name)
#define FOR_EACH_ELEMENT(i, out)                                                                                       \
  for (int64_t i = (int64_t)call->index[0] * call->block[0], end = i + call->block[0]; i < end && i < (out).elements;  \
       ++i)

/* scale(x, factor, bias?, times, out): out = (x * factor + bias) * times */
TB_HOST_KERNEL(scale) {
  TENSOR(x, 0);
  TENSOR(bias, 2);
  TENSOR(out, 4);
  double factor;
  int64_t times;
  memcpy(&factor, call->args[1], sizeof factor);
  memcpy(&times, call->args[3], sizeof times);
  FOR_EACH_ELEMENT(i, out)
  ((float *)out.data)[i] =
      (float)((((float *)x.data)[i] * factor + (bias.data ? ((float *)bias.data)[i % bias.elements] : 0)) * times);
  return TB_OK;
}

/* For aten::erfinv.out: a result that no other kernel gives, from the tensor's description. */
TB_HOST_KERNEL(described) {
  TENSOR(x, 0);
  TENSOR(out, 1);
  FOR_EACH_ELEMENT(i, out)
  ((float *)out.data)[i] = ((float *)x.data)[i] + 1000 * x.dims + 100 * (float)x.sizes[0] + (float)x.dtype;
  return TB_OK;
}

/* For aten::lerp.Scalar_out: out = from + weight * (to - from) */
TB_HOST_KERNEL(lerp) {
  TENSOR(from, 0);
  TENSOR(to, 1);
  TENSOR(out, 3);
  double weight;
  memcpy(&weight, call->args[2], sizeof weight);
  FOR_EACH_ELEMENT(i, out) {
    const float a = ((float *)from.data)[i], b = ((float *)to.data)[i];
    ((float *)out.data)[i] = a + (float)weight * (b - a);
  }
  return TB_OK;
}

/* Writes the launch's dimensions: blocks(out), one element for each block. */
TB_HOST_KERNEL(blocks) {
  TENSOR(out, 0);
  const uint32_t block = call->index[0] + call->grid[0] * call->index[1];
  if (block < out.elements)
    ((int64_t *)out.data)[block] = 10000 * call->grid[1] + 100 * call->block[0] + (int64_t)call->shared_size;
  return TB_OK;
}
