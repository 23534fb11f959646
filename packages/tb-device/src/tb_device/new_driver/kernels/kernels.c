/* kernels.c -- mychip's own kernels for PyTorch's operators, and how tb-ops compiles its own ones for mychip: the
 * extension tb.kernels (tb/kernels.h). No header of PyTorch is needed, so one binary serves every version of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

/* Loads the image beside this library, once. The kernels that it has are those of kernels.cu. */
static tb_status load_own_kernels(tb_driver *self) {
  char path[4096];
  Dl_info library;
  pthread_mutex_lock(&self->own_lock);
  tb_status status = TB_OK;
  if (!self->own_kernels) {
    const char *slash = dladdr((const void *)&device_info, &library) ? strrchr(library.dli_fname, '/') : NULL;
    snprintf(path, sizeof path, "%.*smychip_kernels.image", slash ? (int)(slash + 1 - library.dli_fname) : 0,
             slash ? library.dli_fname : "");
    FILE *file = fopen(path, "rb");
    char *image = NULL;
    long size = 0;
    if (file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) > 0 && (image = malloc((size_t)size))) {
      rewind(file);
      if (fread(image, 1, (size_t)size, file) != (size_t)size) size = 0;
    }
    if (file) fclose(file);
    if (image && size) status = load_module(self, image, (uint64_t)size, &self->own_kernels);
    else status = tb_fail(self->host, TB_NOT_FOUND, "the image of mychip's own kernels is not beside its library");
    free(image);
  }
  pthread_mutex_unlock(&self->own_lock);
  return status;
}

/* Queues a kernel of kernels.cu with one argument, a struct, and a thread for each of `count` elements. */
static tb_status queue_kernel(tb_driver *self, const tb_kernel_call *call, const char *name, const void *argument,
                              uint64_t size, int64_t count) {
  tb_function *function;
  tb_status status = load_own_kernels(self);
  if (!status) status = find_function(self->own_kernels, name, &function);
  if (status || count == 0) return status;
  const uint32_t threads = function->kernel.most_threads;
  const tb_launch config = {.struct_size = sizeof config,
                            .arg_count = 1,
                            .grid = {(uint32_t)((count + threads - 1) / threads), 1, 1},
                            .block = {threads, 1, 1},
                            .args = &argument,
                            .arg_sizes = &size};
  return launch_function(call->stream, function, &config);
}

static int64_t elements(const tb_kernel_tensor *tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor->dims; ++i) count *= tensor->sizes[i];
  return count;
}

/* ---- aten::gelu.out(Tensor self, *, str approximate, Tensor out) --------------------------------------------------- */

static tb_status plan_gelu(void *self, const tb_kernel_call *call, uint64_t *workspace_size, void **plan) {
  (void)workspace_size, (void)plan;
  if (strcmp(call->arguments[1].text, "none") == 0) return TB_OK;
  return tb_fail(((tb_driver *)self)->host, TB_UNSUPPORTED, "mychip has the exact form only");
}

static tb_status run_gelu(void *self, const tb_kernel_call *call) {
  const struct {
    const float *from;
    float *to;
    int64_t count;
  } gelu = {call->arguments[0].tensors->data, call->outputs->data, elements(call->outputs)};
  return queue_kernel(self, call, "gelu", &gelu, sizeof gelu, gelu.count);
}

/* ---- The table ------------------------------------------------------------------------------------------------------ */

#define OWN_KERNEL(operator, overload, ...)                                                                            \
  {.struct_size = sizeof(tb_kernel), .name = "mychip." #operator, .operation = "aten::" #operator "." overload,        \
   .dtypes = TB_DTYPE_BIT(TB_DTYPE_FLOAT32), .layouts = TB_LAYOUT_DENSE,                                               \
   .flags = TB_KERNEL_MAKE_DENSE | TB_KERNEL_CAPTURABLE, .run = run_##operator, __VA_ARGS__}

static const tb_kernel kernels[] = {
    OWN_KERNEL(gelu, "out", .plan = plan_gelu),
};

tb_kernels own_table(tb_driver *self) {
  return (tb_kernels){
      .struct_size = sizeof(tb_kernels),
      .kernel_count = sizeof kernels / sizeof *kernels,
      .kernel_size = sizeof *kernels,
      .kernels = kernels,
      .self = self,
      .images = "images", /* files and folders beside this library */
      .shim = "shim.cuh",
      .compiler_identity = "mychip-cc 0.1.0",
      .compiler_command = "./mychip-cc",
  };
}

void own_table_ends(tb_driver *self) {
  if (self->own_kernels) release_module(self->own_kernels);
}
