/* mychip.c -- a driver of level 0: the memory and copies of one device, which is host memory until your chip's calls
 * stand here. Rules such as E7 and V2 are in tb/driver.h, those of a function (mem_alloc.2) in tb/driver_slots.inc. */
#include "tb/driver.h"
#include <stdlib.h> /* clang-format off */

#define CAPACITY ((uint64_t)1 << 30) /* bytes of memory that the device has */
#define HEADER 64                    /* bytes before each block: they hold its size and keep it aligned */
struct tb_driver { const tb_host *host; _Atomic uint64_t used; /* bytes of live blocks, of all threads */ };
static tb_status check(tb_driver *self, int32_t device, uint64_t flags, const void *out) { /* E7 */
  if (device) return tb_fail(self->host, TB_OUT_OF_RANGE, "mychip has one device, number 0");
  if (flags) return tb_fail(self->host, TB_INVALID_ARGUMENT, "mychip knows no flags: pass 0");
  return out ? TB_OK : tb_fail(self->host, TB_INVALID_ARGUMENT, "the out-parameter is NULL");
}
static tb_status close_driver(tb_driver *self) {
  if (self->used) return tb_fail(self->host, TB_FAILED_PRECONDITION, "memory of mychip is allocated: free it first");
  free(self); return TB_OK;
}
static tb_status get_info(tb_driver *self, tb_driver_info *out) { /* 12: DLPack's number for extension devices */
  static const tb_driver_info info = {sizeof info, 12, "mychip", "Your Company", "0.1.0", "host"};
  tb_status status = check(self, 0, 0, out); return status ? status : tb_struct_fill(out, &info);
}
static tb_status device_count(tb_driver *self, int32_t *out) { if (out) *out = 1; return check(self, 0, 0, out); }
static tb_status device_get_info(tb_driver *self, int32_t device, tb_device_info *out) {
  static const tb_device_info info = {sizeof info, TB_DEVICE_HOST_ACCESSIBLE, "mychip", .uuid = "mychip 0",
      .total_memory = CAPACITY, .max_allocation = CAPACITY, .alignment = 64, .compute_units = 1, .numa_node = -1};
  tb_status status = check(self, device, 0, out); return status ? status : tb_struct_fill(out, &info);
}
static tb_status mem_alloc(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  tb_status status = check(self, device, flags, out); if (status) return status;
  uint64_t bytes = size ? (size + 63) / 64 * 64 : 64;
  char *block = size <= CAPACITY ? aligned_alloc(64, HEADER + bytes) : NULL;
  if (block && (self->used += bytes) > CAPACITY) { self->used -= bytes; free(block); block = NULL; }
  if (!block) return tb_fail(self->host, TB_OUT_OF_MEMORY, "mychip's 1 GiB of memory has not so much room");
  *(uint64_t *)block = bytes; *out = block + HEADER; return TB_OK;
}
static tb_status mem_free(tb_driver *self, int32_t device, void *ptr) {
  if (ptr && !device) { char *block = (char *)ptr - HEADER; self->used -= *(uint64_t *)block; free(block); }
  return check(self, device, 0, self);
}
static tb_status mem_copy(tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                          int32_t kind) { /* stream is NULL: without the group ASYNC the copy is done on return */
  if (kind < 1 || kind > 3) return tb_fail(self->host, TB_INVALID_ARGUMENT, "kind must be one of TB_COPY_*");
  if (size && !device) memmove(dst, src, size);
  return check(self, device, 0, self);
}
static tb_status mem_set(tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern,
                         uint32_t width, uint64_t count) {
  if (width != 1 && width != 2 && width != 4) return tb_fail(self->host, TB_INVALID_ARGUMENT, "width is not 1, 2 or 4");
  for (uint64_t i = 0; i < count && !device; ++i) memcpy((char *)dst + i * width, &pattern, width); /* little-endian */
  return check(self, device, 0, self);
}
TB_EXPORT tb_status tb_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  const tb_driver_api mine = {sizeof mine, TB_ABI_MAJOR, TB_ABI_MINOR, TB_GROUP_CORE, "mychip 0.1.0", close_driver,
      get_info, device_count, device_get_info, .mem_alloc = mem_alloc, .mem_free = mem_free,
      .mem_copy = mem_copy, .mem_set = mem_set};
  tb_driver *driver = calloc(1, sizeof *driver);
  tb_status status = driver ? tb_driver_fill(api, &mine) : TB_OUT_OF_MEMORY;
  if (status) { free(driver); return tb_fail(host, status, "mychip cannot open: no memory, or no such table"); }
  driver->host = host; *self = driver; return TB_OK;
}
