/* kernels.c -- the extension tb.kernels (tb/kernels.h): mychip's own kernels (operators.c), and how tb-ops compiles its
 * own ones for mychip. No header of PyTorch is needed, so one binary serves every version of it. */
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
    if (image && size)
      status = load_module(self, image, (uint64_t)size, &self->own_kernels);
    else
      status = tb_fail(self->host, TB_NOT_FOUND, "the image of mychip's own kernels is not beside its library");
    free(image);
  }
  pthread_mutex_unlock(&self->own_lock);
  return status;
}

tb_status queue_kernel(tb_driver *self, const tb_kernel_call *call, const char *name, const void *argument,
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

tb_kernels own_table(tb_driver *self) {
  return (tb_kernels){
      .struct_size = sizeof(tb_kernels),
      .kernel_count = operator_count,
      .kernel_size = sizeof(tb_kernel),
      .kernels = operators,
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
