/* mychip.c -- the driver's table: checks arguments, and passes them on to the device (device.h) and to streams (queue.h).
 * Rules such as E7 and V2 are in tb/driver.h, those of a function (mem_alloc.2) in tb/driver_slots.inc. */
#include <stdlib.h>

#include "driver.h"

struct tb_event {
  uint64_t flags;
  tb_stream *stream; /* of the last record; NULL: there is none */
  uint64_t number;
  Stamp *stamp; /* with TB_EVENT_TIMING */
};

static tb_status refuse(tb_driver *self, const char *text) { return tb_fail(self->host, TB_INVALID_ARGUMENT, text); }

static tb_status check_device(tb_driver *self, int32_t device) {
  return device ? tb_fail(self->host, TB_OUT_OF_RANGE, "mychip has one device, number 0") : TB_OK;
}
static tb_status check(tb_driver *self, int32_t device, uint64_t flags, const void *out) { /* E7 */
  if (device) return check_device(self, device);
  if (flags) return refuse(self, "mychip knows no flags: pass 0");
  return out ? TB_OK : refuse(self, "the out-parameter is NULL");
}
static tb_status check_handle(tb_driver *self, const void *handle) {
  return handle ? TB_OK : refuse(self, "the stream, event, module or function is NULL");
}

/* ---- CORE ---------------------------------------------------------------------------------------------------------- */

static tb_status close_driver(tb_driver *self) {
  if (self->streams || self->events || self->modules || self->blocks)
    return tb_fail(self->host, TB_FAILED_PRECONDITION, "memory, streams, events or modules of mychip are alive");
  queues_end(&self->queues); /* they do what is queued */
  own_table_ends(self);
  device_close(self->device);
  pthread_mutex_destroy(&self->queues.lock);
  pthread_mutex_destroy(&self->own_lock);
  pthread_mutex_destroy(&self->lock);
  free(self);
  return TB_OK;
}

static tb_status get_info(tb_driver *self, tb_driver_info *out) { /* 12: DLPack's number for extension devices */
  static const tb_driver_info info = {sizeof info, 12, "mychip", "Your Company", "0.1.0", "mychip"};
  const tb_status status = check(self, 0, 0, out);
  return status ? status : tb_struct_fill(out, &info);
}

static tb_status device_count(tb_driver *self, int32_t *out) {
  if (out) *out = 1;
  return check(self, 0, 0, out);
}

static tb_status device_get_info(tb_driver *self, int32_t device, tb_device_info *out) {
  const tb_status status = check(self, device, 0, out);
  return status ? status : tb_struct_fill(out, &device_info);
}

static tb_status device_memory_info(tb_driver *self, int32_t device, uint64_t *out_free, uint64_t *out_total) {
  uint64_t free_bytes;
  tb_status status = check(self, device, 0, out_free && out_total ? self : NULL);
  if (!status) status = device_free_bytes(self->device, &free_bytes);
  if (!status) *out_free = free_bytes, *out_total = device_info.total_memory;
  return status;
}

static tb_status get_extension(tb_driver *self, const char *name, uint32_t version, void *table, uint32_t size) {
  (void)size; /* the table says so too */
  if (!name || !table) return refuse(self, "the name or the table is NULL");
  if (strcmp(name, TB_KERNELS_EXTENSION) != 0 || version != TB_KERNELS_VERSION)
    return tb_fail(self->host, TB_NOT_FOUND, "mychip has the extension tb.kernels only");
  const tb_kernels mine = own_table(self);
  return tb_struct_fill(table, &mine);
}

static tb_status mem_alloc(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  tb_status status = check(self, device, flags, out);
  if (!status) status = device_allocate(self->device, size, out);
  if (!status) self->blocks++;
  return status;
}

static tb_status release(tb_driver *self, void *block) {
  if (!block) return TB_OK;
  const tb_status status = device_release(self->device, block);
  if (!tb_is_refusal(status)) self->blocks--; /* gone with a lost device, too (E8) */
  return status;
}

static tb_status mem_free(tb_driver *self, int32_t device, void *block) {
  return device ? check_device(self, device) : release(self, block);
}

static tb_status mem_copy(tb_driver *self, int32_t device, tb_stream *stream, void *to, const void *from, uint64_t size,
                          int32_t kind) {
  if (device) return check_device(self, device);
  if (!stream) return check_handle(self, stream);
  if (kind < TB_COPY_HOST_TO_DEVICE || kind > TB_COPY_DEVICE_TO_DEVICE)
    return refuse(self, "kind must be one of TB_COPY_*");
  if (size == 0) return TB_OK;
  Command *command = queue_command(stream, COMMAND_COPY, 0);
  if (!command) return TB_OUT_OF_MEMORY;
  command->copy.to = to, command->copy.from = from, command->copy.size = size, command->copy.kind = kind;
  queue_give(stream, command);
  return TB_OK;
}

static tb_status mem_set(tb_driver *self, int32_t device, tb_stream *stream, void *to, uint32_t pattern,
                         uint32_t pattern_size, uint64_t count) {
  if (device) return check_device(self, device);
  if (!stream) return check_handle(self, stream);
  if (pattern_size != 1 && pattern_size != 2 && pattern_size != 4) return refuse(self, "pattern_size is not 1, 2 or 4");
  if (count == 0) return TB_OK;
  Command *command = queue_command(stream, COMMAND_FILL, 0);
  if (!command) return TB_OUT_OF_MEMORY;
  command->fill.to = to, command->fill.count = count;
  command->fill.pattern = pattern, command->fill.pattern_size = pattern_size;
  queue_give(stream, command);
  return TB_OK;
}

/* ---- ASYNC: streams and events ------------------------------------------------------------------------------------- */

static tb_status device_synchronize(tb_driver *self, int32_t device) {
  return device ? check_device(self, device) : queues_wait(&self->queues);
}

static tb_status stream_default(tb_driver *self, int32_t device, tb_stream **out) {
  const tb_status status = check(self, device, 0, out);
  if (!status) *out = self->default_stream;
  return status;
}

static tb_status stream_create(tb_driver *self, int32_t device, int32_t priority, uint64_t flags, tb_stream **out) {
  (void)priority; /* all streams are equally urgent */
  tb_status status = check(self, device, flags, out);
  if (!status) status = queue_open(&self->queues, out);
  if (!status) self->streams++;
  return status;
}

static tb_status stream_destroy(tb_driver *self, tb_stream *stream) {
  if (!stream) return check_handle(self, stream);
  if (stream == self->default_stream) return refuse(self, "the default stream lives as long as the driver");
  queue_close(stream);
  self->streams--;
  return TB_OK;
}

static tb_status stream_query(tb_driver *self, tb_stream *stream) {
  return stream ? queue_query(stream, queue_last(stream)) : check_handle(self, stream);
}

static tb_status stream_synchronize(tb_driver *self, tb_stream *stream) {
  return stream ? queue_wait(stream, queue_last(stream)) : check_handle(self, stream);
}

static tb_status event_create(tb_driver *self, int32_t device, uint64_t flags, tb_event **out) {
  const uint64_t known = TB_EVENT_TIMING | TB_EVENT_BLOCKING; /* all waits sleep */
  const tb_status status = check(self, device, flags & ~(known | TB_EVENT_IPC), out);
  if (status) return status;
  if (flags & TB_EVENT_IPC) return tb_fail(self->host, TB_UNSUPPORTED, "events of mychip are not for other processes");
  tb_event *event = calloc(1, sizeof *event);
  if (!event) return tb_fail(self->host, TB_OUT_OF_MEMORY, "no memory for an event");
  event->flags = flags;
  self->events++;
  *out = event;
  return TB_OK;
}

static tb_status event_destroy(tb_driver *self, tb_event *event) {
  if (!event) return check_handle(self, event);
  release_stamp(event->stamp);
  free(event);
  self->events--;
  return TB_OK;
}

static tb_status event_record(tb_driver *self, tb_event *event, tb_stream *stream) {
  if (!event || !stream) return check_handle(self, NULL);
  Stamp *stamp = NULL;
  Command *command = NULL;
  if (event->flags & TB_EVENT_TIMING) {
    stamp = calloc(1, sizeof *stamp);
    command = stamp ? queue_command(stream, COMMAND_STAMP, 0) : NULL;
    if (!command) {
      free(stamp);
      return tb_fail(self->host, TB_OUT_OF_MEMORY, "no memory for the time of an event");
    }
    stamp->uses = 2;
    command->stamp = stamp;
  }
  pthread_mutex_lock(&self->lock);
  release_stamp(event->stamp);
  event->stream = stream;
  event->number = command ? queue_give(stream, command) : queue_last(stream);
  event->stamp = stamp;
  pthread_mutex_unlock(&self->lock);
  return TB_OK;
}

/* What an event has at this moment, while other threads may record it. */
static tb_event point_of(tb_driver *self, const tb_event *event) {
  pthread_mutex_lock(&self->lock);
  const tb_event point = *event;
  if (point.stamp) atomic_fetch_add(&point.stamp->uses, 1);
  pthread_mutex_unlock(&self->lock);
  return point;
}

static tb_status stream_wait_event(tb_driver *self, tb_stream *stream, tb_event *event) {
  if (!event || !stream) return check_handle(self, NULL);
  const tb_event point = point_of(self, event);
  release_stamp(point.stamp);
  if (!point.stream || point.stream == stream) return TB_OK; /* the order of one stream needs no wait */
  Command *command = queue_command(stream, COMMAND_WAIT, 0);
  if (!command) return TB_OUT_OF_MEMORY;
  command->wait.stream = point.stream, command->wait.number = point.number;
  queue_give(stream, command);
  return TB_OK;
}

static tb_status event_query(tb_driver *self, tb_event *event) {
  if (!event) return check_handle(self, event);
  const tb_event point = point_of(self, event);
  release_stamp(point.stamp);
  return point.stream ? queue_query(point.stream, point.number) : TB_OK;
}

static tb_status event_synchronize(tb_driver *self, tb_event *event) {
  if (!event) return check_handle(self, event);
  const tb_event point = point_of(self, event);
  release_stamp(point.stamp);
  return point.stream ? queue_wait(point.stream, point.number) : TB_OK;
}

/* ---- TIMING, PIN, HOSTCALL ----------------------------------------------------------------------------------------- */

static tb_status event_elapsed_ns(tb_driver *self, tb_event *start, tb_event *end, int64_t *out) {
  if (!start || !end || !out) return refuse(self, "an event or the out-parameter is NULL");
  const tb_event from = point_of(self, start), to = point_of(self, end);
  tb_status status = TB_OK;
  if (!from.stamp || !to.stamp)
    status = tb_fail(self->host, TB_FAILED_PRECONDITION, "an event has no record, or was made without TB_EVENT_TIMING");
  if (!status) status = queue_query(from.stream, from.number);
  if (!status) status = queue_query(to.stream, to.number);
  if (!status) *out = to.stamp->nanoseconds - from.stamp->nanoseconds;
  release_stamp(from.stamp);
  release_stamp(to.stamp);
  return status;
}

static tb_status mem_alloc_host(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  tb_status status = check(self, device, flags, out);
  if (!status) status = device_allocate_pinned(self->device, size, out);
  if (!status) self->blocks++;
  return status;
}

static tb_status mem_free_host(tb_driver *self, void *block) { return release(self, block); }

static tb_status stream_host_call(tb_driver *self, tb_stream *stream, void (*function)(void *user, tb_status status),
                                  void *user) {
  if (!stream || !function) return refuse(self, "the stream or the function is NULL");
  Command *command = queue_command(stream, COMMAND_CALL, 0);
  if (!command) return TB_OUT_OF_MEMORY;
  command->call.function = function, command->call.user = user;
  queue_give(stream, command);
  return TB_OK;
}

/* ---- Open ---------------------------------------------------------------------------------------------------------- */

static const tb_driver_api table = {
    sizeof table,
    TB_ABI_MAJOR,
    TB_ABI_MINOR,
    TB_GROUP_CORE | TB_GROUP_ASYNC | TB_GROUP_PIN | TB_GROUP_TIMING | TB_GROUP_HOSTCALL | TB_GROUP_MODULE,
    "mychip 0.1.0",
    .close = close_driver,
    .get_info = get_info,
    .device_count = device_count,
    .device_get_info = device_get_info,
    .device_memory_info = device_memory_info,
    .get_extension = get_extension,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .mem_copy = mem_copy,
    .mem_set = mem_set,
    .device_synchronize = device_synchronize,
    .stream_default = stream_default,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = stream_query,
    .stream_synchronize = stream_synchronize,
    .stream_wait_event = stream_wait_event,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .mem_alloc_host = mem_alloc_host,
    .mem_free_host = mem_free_host,
    .stream_host_call = stream_host_call,
    .event_elapsed_ns = event_elapsed_ns,
    .module_load = module_load,
    .module_unload = module_unload,
    .module_function = module_function,
    .module_global = module_global,
    .function_get_info = function_get_info,
    .launch = launch,
};

TB_EXPORT tb_status tb_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  tb_driver *driver = calloc(1, sizeof *driver);
  if (!driver) return tb_fail(host, TB_OUT_OF_MEMORY, "no memory to open mychip");
  driver->host = host;
  pthread_mutex_init(&driver->lock, NULL);
  pthread_mutex_init(&driver->own_lock, NULL);
  pthread_mutex_init(&driver->queues.lock, NULL);
  tb_status status = device_open(host, &driver->device);
  if (!status) {
    driver->queues.host = host;
    driver->queues.device = driver->device;
    status = queue_open(&driver->queues, &driver->default_stream);
    if (!status && tb_driver_fill(api, &table))
      status = tb_fail(host, TB_ABI_MISMATCH, "mychip cannot fill a table that small");
    if (status) queues_end(&driver->queues), device_close(driver->device);
  }
  if (status)
    free(driver);
  else
    *self = driver;
  return status;
}
