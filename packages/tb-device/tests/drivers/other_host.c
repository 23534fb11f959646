/* other_host.c -- a host of another version: opens a driver with the table of the headers that it was compiled with,
 * uses it, and looks at the bytes around everything that the driver fills. */
#include "tb/driver.h"
#include <stdio.h>
#include <stdlib.h>

#define GUARD 512
static char text[256];

static void set_error(tb_status status, int64_t native_code, const char *words) {
  snprintf(text, sizeof text, "status %d, native %lld: %s", (int)status, (long long)native_code, words);
}
static void write_log(int32_t level, const char *words) { (void)level, (void)words; }
static const char *option(const char *key) { return (void)key, (const char *)NULL; }
static const tb_host host = {sizeof host, TB_ABI_MAJOR, TB_ABI_MINOR, set_error, write_log, option, NULL, NULL};

static int untouched(const unsigned char *from, uint64_t count, unsigned char value) {
  for (uint64_t i = 0; i < count; ++i)
    if (from[i] != value) return 0;
  return 1;
}

/* Gives NULL, or what is wrong. driver_size: size of the table that the driver was compiled with, in bytes. */
TB_EXPORT const char *use_driver(tb_driver_open_fn open, uint32_t driver_size);
TB_EXPORT uint32_t table_size(void);

uint32_t table_size(void) { return sizeof(tb_driver_api); }

const char *use_driver(tb_driver_open_fn open, uint32_t driver_size) {
  struct {
    tb_driver_api api;
    unsigned char guard[GUARD];
  } table;
  struct {
    tb_device_info info;
    unsigned char guard[GUARD];
  } device;
  struct {
    tb_driver_info info;
    unsigned char guard[GUARD];
  } driver;
  tb_driver *self = NULL;
  tb_stream *stream = NULL;
  void *memory = NULL;
  char sent[5] = "hello", back[5] = "";
  memset(&table.api, 0, sizeof table.api);
  memset(table.guard, 0xA5, GUARD);
  memset(&device, 0xA5, sizeof device);
  memset(&driver, 0xA5, sizeof driver);
  table.api.struct_size = sizeof table.api;
  device.info.struct_size = sizeof device.info;
  driver.info.struct_size = sizeof driver.info;
  if (open(&host, &table.api, &self)) return text;
  if (!untouched(table.guard, GUARD, 0xA5)) return "the driver wrote past the table";
  if (table.api.struct_size != sizeof table.api) return "the driver changed struct_size";
  if (driver_size < sizeof table.api &&
      !untouched((unsigned char *)&table.api + driver_size, sizeof table.api - driver_size, 0))
    return "the driver wrote functions that it does not know";
  if (table.api.get_info(self, &driver.info)) return text;
  if (!untouched(driver.guard, GUARD, 0xA5)) return "the driver wrote past tb_driver_info";
  if (table.api.device_get_info(self, 0, &device.info)) return text;
  if (!untouched(device.guard, GUARD, 0xA5)) return "the driver wrote past tb_device_info";
  if (device.info.alignment < 64 || !driver.info.name[0]) return "the facts are not there";
  if ((table.api.groups & TB_GROUP_ASYNC) && table.api.stream_default(self, 0, &stream)) return text;
  if (table.api.mem_alloc(self, 0, 5, 0, &memory)) return text;
  if (table.api.mem_copy(self, 0, stream, memory, sent, 5, TB_COPY_HOST_TO_DEVICE)) return text;
  if (table.api.mem_copy(self, 0, stream, back, memory, 5, TB_COPY_DEVICE_TO_HOST)) return text;
  if (stream && table.api.stream_synchronize(self, stream)) return text;
  if (memcmp(sent, back, 5)) return "other bytes came back";
  if (table.api.mem_free(self, 0, memory)) return text;
  return table.api.close(self) ? text : NULL;
}
