/* modules.c -- loaded images, their kernels, and launches. */
#include <stdlib.h>

#include "driver.h"

/* ---- What the table and own kernels use. ------------------------------------------------------------------------------- */

void release_module(tb_module *module) {
  if (atomic_fetch_sub(&module->uses, 1) != 1) return;
  device_unload(module->driver->device, module->handle);
  while (module->functions) {
    tb_function *function = module->functions;
    module->functions = function->next;
    free(function);
  }
  free(module);
}

tb_status load_module(tb_driver *self, const void *image, uint64_t size, tb_module **out) {
  tb_module *module = calloc(1, sizeof *module);
  if (!module) return tb_fail(self->host, TB_OUT_OF_MEMORY, "no memory for a module");
  const tb_status status = device_load(self->device, image, size, &module->handle);
  if (status) {
    free(module);
    return status;
  }
  module->uses = 1;
  module->driver = self;
  *out = module;
  return TB_OK;
}

/* The functions of a module that were asked for are kept. */
tb_status find_function(tb_module *module, const char *name, tb_function **out) {
  tb_driver *self = module->driver;
  tb_status status = TB_OK;
  pthread_mutex_lock(&self->lock);
  tb_function *function = module->functions;
  while (function && strcmp(function->name, name) != 0) function = function->next;
  if (!function) {
    DeviceKernel kernel;
    status = device_find_kernel(self->device, module->handle, name, &kernel);
    function = status ? NULL : malloc(sizeof *function + strlen(name) + 1);
    if (!status && !function) status = tb_fail(self->host, TB_OUT_OF_MEMORY, "no memory for a function of a module");
    if (function) {
      *function = (tb_function){module->functions, module, kernel};
      strcpy(function->name, name);
      module->functions = function;
    }
  }
  pthread_mutex_unlock(&self->lock);
  if (function) *out = function;
  return status;
}

tb_status launch_function(tb_stream *stream, tb_function *function, const tb_launch *config) {
  Command *command = queue_command(stream, COMMAND_LAUNCH, sizeof(DeviceLaunch));
  if (!command) return TB_OUT_OF_MEMORY;
  command->launch.module = function->module;
  command->launch.name = function->name;
  command->launch.values = (DeviceLaunch *)(command + 1);
  const tb_status status =
      device_prepare_launch(stream->queues->host, function->kernel, config, command->launch.values);
  if (status) {
    free(command);
    return status;
  }
  atomic_fetch_add(&function->module->uses, 1);
  queue_give(stream, command);
  return TB_OK;
}

/* ---- The group MODULE of the table. -------------------------------------------------------------------------------- */

static tb_status refuse_null(tb_driver *self) {
  return tb_fail(self->host, TB_INVALID_ARGUMENT, "an image, a handle, a name or an out-parameter is NULL");
}

tb_status module_load(tb_driver *self, int32_t device, const void *image, uint64_t size, const char *options,
                      tb_module **out) {
  if (device) return tb_fail(self->host, TB_OUT_OF_RANGE, "mychip has one device, number 0");
  if (!image || !out) return refuse_null(self);
  if (options && *options) return tb_fail(self->host, TB_INVALID_ARGUMENT, "mychip's loader has no options");
  const tb_status status = load_module(self, image, size, out);
  if (!status) self->modules++;
  return status;
}

tb_status module_unload(tb_driver *self, tb_module *module) {
  if (!module) return refuse_null(self);
  release_module(module);
  self->modules--;
  return TB_OK;
}

tb_status module_function(tb_driver *self, tb_module *module, const char *name, tb_function **out) {
  return module && name && out ? find_function(module, name, out) : refuse_null(self);
}

tb_status module_global(tb_driver *self, tb_module *module, const char *name, void **out, uint64_t *out_size) {
  if (!module || !name || !out || !out_size) return refuse_null(self);
  return device_find_variable(self->device, module->handle, name, out, out_size);
}

tb_status function_get_info(tb_driver *self, tb_function *function, tb_function_info *out) {
  if (!function || !out) return refuse_null(self);
  const tb_function_info info = {.struct_size = sizeof info, .max_threads = function->kernel.most_threads};
  return tb_struct_fill(out, &info);
}

tb_status launch(tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
  if (!stream || !function || !config) return refuse_null(self);
  return launch_function(stream, function, config);
}
