/* device.h -- everything that talks to the device: what your chip's own library does. Replace device.c, and keep the
 * rest of the driver.
 *
 * Every function may be called from any thread. Those about work return when the device has done it; queue.c calls them
 * from a thread for each stream. A failing function has set its text, through tb_host.set_error; the text of failed work
 * is in `text`, because a later call reports it. After the device is lost, every function gives TB_DEVICE_LOST. */
#ifndef DEVICE_H
#define DEVICE_H

#include "tb/driver.h"

#define DEVICE_TEXT_BYTES 512

typedef struct Device Device;
typedef struct Channel Channel; /* does one piece of work at a time */

tb_status device_open(const tb_host *host, Device **out);
void device_close(Device *device); /* when all its work is done */

extern const tb_device_info device_info;
tb_status device_free_bytes(Device *device, uint64_t *out);
tb_status device_allocate(Device *device, uint64_t size, void **out);
tb_status device_allocate_pinned(Device *device, uint64_t size, void **out); /* the same address on the host */
tb_status device_release(Device *device, void *block);                       /* of either kind */

/* A module is one load of an image. Kernels and variables live as long as it does. */
typedef struct DeviceKernel {
  uint64_t handle;
  uint32_t most_threads; /* of a block */
} DeviceKernel;
tb_status device_load(Device *device, const void *image, uint64_t size, uint64_t *module);
void device_unload(Device *device, uint64_t module);
tb_status device_find_kernel(Device *device, uint64_t module, const char *name, DeviceKernel *out);
tb_status device_find_variable(Device *device, uint64_t module, const char *name, void **out, uint64_t *out_size);

/* Channels are kept until device_close. */
tb_status device_open_channel(Device *device, Channel **out);
tb_status device_copy(Device *device, Channel *channel, void *to, const void *from, uint64_t size, int32_t kind,
                      char *text);
tb_status device_fill(Device *device, Channel *channel, void *to, uint32_t pattern, uint32_t pattern_size,
                      uint64_t count, char *text);

/* The values of a launch's arguments, copied when it was queued. */
typedef struct DeviceLaunch {
  DeviceKernel kernel;
  uint32_t grid[3], block[3], argument_count;
  uint32_t places[64]; /* of the arguments in `bytes` */
  uint32_t used;       /* of `bytes` */
  char bytes[4096];
} DeviceLaunch;
/* Refuses what the device cannot launch. */
tb_status device_prepare_launch(const tb_host *host, DeviceKernel kernel, const tb_launch *config, DeviceLaunch *out);
tb_status device_launch(Device *device, Channel *channel, const DeviceLaunch *launch, char *text);

#endif
