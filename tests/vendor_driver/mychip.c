/* mychip.c -- a whole driver: the eight CORE functions over host memory. Copy it and put your chip's calls inside.
 * cc -std=c11 -shared -fPIC -I "$(tb-device --includes)" mychip.c -o libmychip.so */
#include "tb/driver.h"
#include <stdlib.h> /* clang-format off */

static const tb_host *chip_host;
static int64_t live_blocks;
static tb_status fail(tb_status status, const char *text) { chip_host->set_error(status, 0, text); return status; }
static tb_status no_device(void) { return fail(TB_OUT_OF_RANGE, "mychip has one device, 0"); }
static tb_status fill(void *out, const void *mine, uint32_t size) { /* no more than the caller's struct_size */
  uint32_t room = *(uint32_t *)out;
  memcpy((char *)out + sizeof room, (const char *)mine + sizeof room, (room < size ? room : size) - sizeof room);
  return TB_OK;
}
static tb_status close(tb_driver *self) { return live_blocks ? fail(TB_FAILED_PRECONDITION, "memory is live") : TB_OK; }
static tb_status get_info(tb_driver *self, tb_driver_info *out) {
  static const tb_driver_info info = {sizeof info, 12, "mychip", "My Company", "1.0", "host"};
  return fill(out, &info, sizeof info);
}
static tb_status device_count(tb_driver *self, int32_t *out) { *out = 1; return TB_OK; }
static tb_status device_get_info(tb_driver *self, int32_t device, tb_device_info *out) {
  static const tb_device_info info = {.flags = TB_DEVICE_HOST_ACCESSIBLE, .name = "My Chip 1", .alignment = 64,
      .total_memory = 1 << 30, .max_allocation = 1 << 30, .compute_units = 1, .numa_node = -1};
  return device ? no_device() : fill(out, &info, sizeof info);
}
static tb_status mem_alloc(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  if (device) return no_device();
  if (flags) return fail(TB_INVALID_ARGUMENT, "mychip knows no allocation flags");
  void *block = size <= 1 << 30 ? aligned_alloc(64, (size / 64 + 1) * 64) : NULL;
  if (!block) return fail(TB_OUT_OF_MEMORY, "mychip has no free block of that size");
  __atomic_add_fetch(&live_blocks, 1, __ATOMIC_RELAXED); /* any thread may call */
  *out = block;
  return TB_OK;
}
static tb_status mem_free(tb_driver *self, int32_t device, void *block) {
  if (device) return no_device();
  if (block) __atomic_sub_fetch(&live_blocks, 1, __ATOMIC_RELAXED);
  free(block);
  return TB_OK;
}
static tb_status mem_copy(tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                          int32_t kind) { /* without the ASYNC group the stream is NULL: done on return */
  if (device) return no_device();
  if (size) memmove(dst, src, size);
  return TB_OK;
}
static tb_status mem_set(tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern,
                         uint32_t width, uint64_t count) {
  if (device) return no_device();
  if (width != 1 && width != 2 && width != 4) return fail(TB_INVALID_ARGUMENT, "pattern_size must be 1, 2 or 4");
  for (uint64_t i = 0; i < count * width; ++i) ((uint8_t *)dst)[i] = (uint8_t)(pattern >> i % width * 8);
  return TB_OK;
}
TB_EXPORT tb_status tb_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  const tb_driver_api mine = {sizeof mine, TB_ABI_MAJOR, TB_ABI_MINOR, TB_GROUP_CORE, "mychip 1.0", .close = close,
      .get_info = get_info, .device_count = device_count, .device_get_info = device_get_info, .mem_alloc = mem_alloc,
      .mem_free = mem_free, .mem_copy = mem_copy, .mem_set = mem_set};
  chip_host = host, *self = (tb_driver *)&live_blocks; /* the address of your own state */
  return tb_driver_fill(api, &mine);
}
