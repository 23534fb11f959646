/* driver.h -- what the driver and its own kernels (kernels.c) share. */
#ifndef DRIVER_H
#define DRIVER_H

#include "queue.h"
#include "tb/kernels.h"

struct tb_function {
  struct tb_function *next; /* of the module */
  struct tb_module *module;
  DeviceKernel kernel;
  char name[];
};

/* One for each time the driver is opened. */
struct tb_driver {
  const tb_host *host;
  Device *device;
  Queues queues;
  tb_stream *default_stream;
  pthread_mutex_t lock;                              /* of the points of events, and of the functions of modules */
  _Atomic uint64_t streams, events, modules, blocks; /* those that are alive */
  pthread_mutex_t own_lock;
  tb_module *own_kernels; /* kernels.cu, once a call has needed it */
};

tb_status load_module(tb_driver *self, const void *image, uint64_t size, tb_module **out);
tb_status find_function(tb_module *module, const char *name, tb_function **out);
tb_status launch_function(tb_stream *stream, tb_function *function, const tb_launch *config);

/* The group MODULE of the table. */
tb_status module_load(tb_driver *self, int32_t device, const void *image, uint64_t size, const char *options,
                      tb_module **out);
tb_status module_unload(tb_driver *self, tb_module *module);
tb_status module_function(tb_driver *self, tb_module *module, const char *name, tb_function **out);
tb_status module_global(tb_driver *self, tb_module *module, const char *name, void **out, uint64_t *out_size);
tb_status function_get_info(tb_driver *self, tb_function *function, tb_function_info *out);
tb_status launch(tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config);

/* The operators that mychip computes itself. */
extern const tb_kernel operators[];
extern const uint32_t operator_count;
/* Queues a kernel of kernels.cu with one argument, a struct of `size` bytes, and a thread for each of `count` elements. */
tb_status queue_kernel(tb_driver *self, const tb_kernel_call *call, const char *name, const void *argument,
                       uint64_t size, int64_t count);

/* The extension tb.kernels of a driver. */
tb_kernels own_table(tb_driver *self);
void own_table_ends(tb_driver *self);

#endif
