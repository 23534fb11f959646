/* A library beside the sim driver whose table says how tb-ops' kernels become images. VENDOR_WAY: "compile" (in this
 * process), "command" (./mycc beside the library) or "images" (the folder images beside it). */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tb/kernels.h"

static tb_kernels_host host;

static tb_status fail(const char *text) {
  host.set_error(TB_INTERNAL, 7, text);
  return TB_INTERNAL;
}

static tb_status compile(void *self, int32_t device, const tb_kernel_source *source, tb_take_image_fn take,
                         void *context) {
  (void)self;
  if (getenv("VENDOR_FAILS")) return fail("the chip has no such instruction");
  char folder[] = "/tmp/vendor-XXXXXX", path[64], command[256];
  if (device < 0 || source->threads != 256 || strcmp(source->entry, "tb_entry") != 0) return fail("a wrong source");
  if (!mkdtemp(folder)) return fail("no folder");
  snprintf(path, sizeof path, "%s/kernel.cpp", folder);
  FILE *file = fopen(path, "w");
  if (!file || fputs(source->text, file) < 0 || fclose(file) != 0) return fail("no source");
  snprintf(command, sizeof command, "c++ -std=c++20 -O1 -fPIC -shared -w -o %s/image %s", folder, path);
  if (system(command) != 0) return fail("the text does not compile");
  snprintf(path, sizeof path, "%s/image", folder);
  file = fopen(path, "rb");
  if (!file) return fail("no image");
  fseek(file, 0, SEEK_END);
  const long size = ftell(file);
  rewind(file);
  void *image = malloc((size_t)size);
  const size_t read = image ? fread(image, 1, (size_t)size, file) : 0;
  fclose(file);
  take(context, image, read);
  free(image);
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) == 0 ? TB_OK : fail("the folder stays");
}

__attribute__((visibility("default"))) tb_status tb_kernels_open(const tb_kernels_host *given, tb_kernels *table) {
  const char *way = getenv("VENDOR_WAY"), *identity = getenv("VENDOR_IDENTITY");
  host = *given;
  if (!way) return TB_UNSUPPORTED;
  if (strcmp(way, "images") == 0 || strcmp(way, "all") == 0) table->images = "images";
  if (strcmp(way, "images") == 0) return TB_OK;
  table->shim = "mychip.cuh";
  table->compiler_identity = !identity ? "mycc 1.0" : *identity ? identity : NULL;
  if (strcmp(way, "compile") == 0) table->compile = compile;
  if (strcmp(way, "command") == 0 || strcmp(way, "all") == 0) table->compiler_command = "./mycc -O1";
  return TB_OK;
}
