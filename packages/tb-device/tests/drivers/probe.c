/* probe.c -- a driver over host memory for tests. -D switches plant defects or add functions.
 * With WITH_ASYNC streams do their work at once, so that any waiting that a test sees is the host's emulation. */
#include "tb/driver.h"
#include <stdlib.h>

#ifndef ENTRY
#define ENTRY tb_driver_open_v1
#endif
#ifndef COUNT
#define COUNT 1
#endif
#ifndef ALIGNMENT
#define ALIGNMENT 64
#endif
#ifndef NAME
#define NAME "probe"
#endif
#ifndef MAJOR
#define MAJOR TB_ABI_MAJOR
#endif
#ifndef TABLE_SIZE
#define TABLE_SIZE sizeof(tb_driver_api)
#endif

struct tb_driver {
  const tb_host *host;
  int64_t boost; /* the option "boost" */
};
static int64_t live;

static tb_status fail(tb_driver *self, tb_status status, int64_t native, const char *text) {
  self->host->set_error(status, native, text);
  return status;
}
static tb_status in_range(tb_driver *self, int32_t device) {
  return device >= 0 && device < COUNT ? TB_OK : fail(self, TB_OUT_OF_RANGE, 0, "probe has no such device");
}

static tb_status close(tb_driver *self) {
  if (live) return fail(self, TB_FAILED_PRECONDITION, 0, "probe has live objects");
  free(self);
  return TB_OK;
}
static tb_status get_info(tb_driver *self, tb_driver_info *out) {
  (void)self;
  const tb_driver_info mine = {out->struct_size, 12, NAME, "tests", "1", "host"};
  memcpy(out, &mine, out->struct_size < sizeof mine ? out->struct_size : sizeof mine);
  return TB_OK;
}
static tb_status device_count(tb_driver *self, int32_t *out) {
  (void)self;
  *out = COUNT;
  return TB_OK;
}
static tb_status device_get_info(tb_driver *self, int32_t device, tb_device_info *out) {
  (void)device;
  tb_device_info mine = {0};
  mine.struct_size = out->struct_size;
  mine.total_memory = mine.max_allocation = 1u << 20;
  mine.alignment = ALIGNMENT;
  mine.compute_units = (uint32_t)self->boost;
  mine.numa_node = -1;
  memcpy(out, &mine, out->struct_size < sizeof mine ? out->struct_size : sizeof mine);
  return TB_OK;
}
static tb_status mem_alloc(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  tb_status status = in_range(self, device);
  if (status) return status;
  if (size == 99) return fail(self, 200, 7, "a status that nobody knows"); /* an unknown status, for tests */
  if (size == 98) return TB_INTERNAL;                                      /* an error without a text, for tests */
  if (flags) return fail(self, TB_INVALID_ARGUMENT, 0, "unknown flags");
  if (size > 1u << 20) return fail(self, TB_OUT_OF_MEMORY, 42, "probe has 1 MiB");
  *out = aligned_alloc(64, (size / 64 + 1) * 64);
  ++live;
  return TB_OK;
}
static tb_status mem_free(tb_driver *self, int32_t device, void *ptr) {
  tb_status status = in_range(self, device);
  if (status) return status;
#ifdef CRASHES
  if (!ptr) *(volatile int *)0 = 0;
#endif
#ifdef HANGS
  static volatile int for_ever = 1;
  while (!ptr && for_ever) continue;
#endif
  if (ptr) --live;
  free(ptr);
  return TB_OK;
}

#ifdef KEEPS_PINNED
static tb_status mem_alloc_host(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  (void)flags;
  *out = malloc(size + 1);
  return in_range(self, device);
}
static tb_status mem_free_host(tb_driver *self, void *ptr) {
  return ptr ? fail(self, TB_FAILED_PRECONDITION, 0, "the block is in use") : TB_OK;
}
#endif

/* Without ASYNC a stream must never arrive here; with it, always. */
static int stream_fits(const tb_stream *stream) {
#ifdef WITH_ASYNC
  return stream != NULL;
#else
  return stream == NULL;
#endif
}
static tb_status mem_copy(tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                          int32_t kind) {
  tb_status status = in_range(self, device);
  if (status) return status;
  if (!stream_fits(stream)) return fail(self, TB_INTERNAL, 0, "wrong stream");
  if (kind < 1 || kind > 3) return fail(self, TB_INVALID_ARGUMENT, 0, "wrong kind");
  if (size) memmove(dst, src, size);
  return TB_OK;
}
static tb_status mem_set(tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern,
                         uint32_t width, uint64_t count) {
  tb_status status = in_range(self, device);
  if (status) return status;
  if (!stream_fits(stream)) return fail(self, TB_INTERNAL, 0, "wrong stream");
  for (uint64_t i = 0; i < count * width; ++i) ((uint8_t *)dst)[i] = (uint8_t)(pattern >> i % width * 8);
  return TB_OK;
}

#if defined(WITH_ASYNC) || defined(HALF_ASYNC)
static tb_status device_synchronize(tb_driver *self, int32_t device) { return in_range(self, device); }
static tb_status stream_default(tb_driver *self, int32_t device, tb_stream **out) {
  tb_status status = in_range(self, device);
  if (status) return status;
  static char streams[COUNT > 0 ? COUNT : 1];
  *out = (tb_stream *)&streams[device];
  return TB_OK;
}
#endif
#ifdef WITH_ASYNC
static tb_status stream_create(tb_driver *self, int32_t device, int32_t priority, uint64_t flags, tb_stream **out) {
  (void)priority, (void)flags;
  tb_status status = in_range(self, device);
  if (status) return status;
  *out = (tb_stream *)malloc(1);
  ++live;
  return TB_OK;
}
static tb_status stream_destroy(tb_driver *self, tb_stream *stream) {
  (void)self;
  --live;
  free(stream);
  return TB_OK;
}
static tb_status stream_query(tb_driver *self, tb_stream *stream) { return (void)self, (void)stream, TB_OK; }
static tb_status stream_synchronize(tb_driver *self, tb_stream *stream) { return (void)self, (void)stream, TB_OK; }
static tb_status stream_wait_event(tb_driver *self, tb_stream *stream, tb_event *event) {
  return (void)self, (void)stream, (void)event, TB_OK;
}
static tb_status event_create(tb_driver *self, int32_t device, uint64_t flags, tb_event **out) {
  (void)flags;
  tb_status status = in_range(self, device);
  if (status) return status;
  *out = (tb_event *)malloc(1);
  ++live;
  return TB_OK;
}
static tb_status event_destroy(tb_driver *self, tb_event *event) {
  (void)self;
  --live;
  free(event);
  return TB_OK;
}
static tb_status event_record(tb_driver *self, tb_event *event, tb_stream *stream) {
  return (void)self, (void)event, (void)stream, TB_OK;
}
static tb_status event_query(tb_driver *self, tb_event *event) { return (void)self, (void)event, TB_OK; }
static tb_status event_synchronize(tb_driver *self, tb_event *event) { return (void)self, (void)event, TB_OK; }
#endif
#ifdef WITH_TIMING
static tb_status event_elapsed_ns(tb_driver *self, tb_event *start, tb_event *end, int64_t *out) {
  (void)self, (void)start, (void)end;
  *out = 0;
  return TB_OK;
}
#endif

#ifdef EXTRA_SYMBOL
TB_EXPORT void EXTRA_SYMBOL(void);
void EXTRA_SYMBOL(void) {}
#endif

TB_EXPORT tb_status ENTRY(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  static tb_driver_api mine;
  mine.struct_size = TABLE_SIZE;
  mine.abi_major = MAJOR;
  mine.groups = TB_GROUP_CORE;
  mine.build_id = "probe";
#ifdef OPEN_FAILS
  host->set_error(TB_UNAVAILABLE, 17, "the probe's hardware is not plugged in");
  return TB_UNAVAILABLE;
#endif
#ifndef LACKS_ALLOC
  mine.mem_alloc = mem_alloc;
  mine.mem_free = mem_free;
#else
  (void)mem_alloc, (void)mem_free;
#endif
  mine.close = close;
  mine.get_info = get_info;
  mine.device_count = device_count;
  mine.device_get_info = device_get_info;
  mine.mem_copy = mem_copy;
  mine.mem_set = mem_set;
#if defined(WITH_ASYNC) || defined(HALF_ASYNC)
  mine.device_synchronize = device_synchronize;
  mine.stream_default = stream_default;
#endif
#ifdef WITH_ASYNC
  mine.groups |= TB_GROUP_ASYNC;
  mine.stream_create = stream_create;
  mine.stream_destroy = stream_destroy;
  mine.stream_query = stream_query;
  mine.stream_synchronize = stream_synchronize;
  mine.stream_wait_event = stream_wait_event;
  mine.event_create = event_create;
  mine.event_destroy = event_destroy;
  mine.event_record = event_record;
  mine.event_query = event_query;
  mine.event_synchronize = event_synchronize;
#endif
#ifdef KEEPS_PINNED
  mine.groups |= TB_GROUP_PIN;
  mine.mem_alloc_host = mem_alloc_host;
  mine.mem_free_host = mem_free_host;
#endif
#ifdef WITH_TIMING
  mine.groups |= TB_GROUP_TIMING;
  mine.event_elapsed_ns = event_elapsed_ns;
#endif
#ifdef MORE_GROUPS
  mine.groups |= MORE_GROUPS;
#endif
#ifdef LEAKS
  ++live; /* close refuses while blocks are live */
#endif
  tb_driver *made = (tb_driver *)calloc(1, sizeof *made);
  made->host = host;
  const char *boost = host->option("boost");
  if (boost) made->boost = atoi(boost);
#ifndef NO_SELF
  *self = made;
#else
  (void)self, free(made);
#endif
#ifdef OVERRUN
  memset((char *)api + api->struct_size, 0, 8);
#endif
  tb_status status = tb_driver_fill(api, &mine);
#ifdef TINY_TABLE
  api->struct_size = 4;
#endif
  return status;
}
