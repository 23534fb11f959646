// The functions of the table for streams, events and what is queued on them.
#pragma once

#include "streams/stream.h"

namespace tb::opencl {

tb_status device_synchronize(tb_driver *self, int32_t device);
tb_status stream_default(tb_driver *self, int32_t device, tb_stream **out);
tb_status stream_create(tb_driver *self, int32_t device, int32_t priority, uint64_t flags, tb_stream **out);
tb_status stream_destroy(tb_driver *self, tb_stream *stream);
tb_status stream_query(tb_driver *self, tb_stream *stream);
tb_status stream_synchronize(tb_driver *self, tb_stream *stream);
tb_status stream_wait_event(tb_driver *self, tb_stream *stream, tb_event *event);
tb_status stream_native(tb_driver *self, tb_stream *stream, uint64_t *out);
tb_status stream_wrap(tb_driver *self, int32_t device, uint64_t native, tb_stream **out);
tb_status stream_host_call(tb_driver *self, tb_stream *stream, void (*function)(void *, tb_status), void *user);

tb_status event_create(tb_driver *self, int32_t device, uint64_t flags, tb_event **out);
tb_status event_destroy(tb_driver *self, tb_event *event);
tb_status event_record(tb_driver *self, tb_event *event, tb_stream *stream);
tb_status event_query(tb_driver *self, tb_event *event);
tb_status event_synchronize(tb_driver *self, tb_event *event);
tb_status event_elapsed_ns(tb_driver *self, tb_event *start, tb_event *end, int64_t *out);

tb_status mem_copy(tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                   int32_t kind);
tb_status mem_copy_2d(tb_driver *self, int32_t device, tb_stream *stream, const tb_copy_2d *copy);
tb_status mem_set(tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern, uint32_t width,
                  uint64_t count);
tb_status peer_can_access(tb_driver *self, int32_t device, int32_t peer, int32_t *out);
tb_status peer_enable(tb_driver *self, int32_t device, int32_t peer);
tb_status peer_disable(tb_driver *self, int32_t device, int32_t peer);
tb_status peer_copy(tb_driver *self, tb_stream *stream, void *dst, int32_t dst_device, const void *src,
                    int32_t src_device, uint64_t size);

} // namespace tb::opencl
