// streams.h -- current stream of a thread, default streams, the pool, and what is known of a handle.
//
// Every function may be called from any thread. The functions that return a status set a text when they fail.
#pragma once

#include "host.h"

namespace tb {

// PyTorch's device index is a signed byte.
inline constexpr int32_t device_limit = 128;
inline constexpr uint32_t pool_size = 32;

// This thread's current streams of the first devices, NULL until one is asked for or set. Read by every operator of a
// program, so they lie at a fixed distance from the thread pointer: an access is one instruction instead of a call. That
// room is scarce in a library loaded late (some 2 KiB for all libraries together), so further devices have other places.
inline constexpr int32_t near_devices = 8;
[[gnu::tls_model("initial-exec")]] extern thread_local constinit tb_stream *near_streams[near_devices];

// This thread's current stream; the device's default stream until set. NULL as default_stream.
tb_stream *current_stream(int32_t device);
// NULL goes back to the default stream. A stream known to be another device's: TB_INVALID_ARGUMENT. One that is not
// known (wrapped by the caller) is taken as it is; the caller keeps it alive while it is current anywhere.
tb_status set_current_stream(int32_t device, tb_stream *stream);
// NULL with a text for a device out of range, or when the driver fails to give it.
tb_stream *default_stream(int32_t device);
// The same two, with the status.
tb_status find_current_stream(int32_t device, tb_stream **out);
tb_status find_default_stream(int32_t device, tb_stream **out);
// Of the pool of (device, priority), in turn. Priorities out of the device's range are clamped.
tb_status stream_from_pool(int32_t device, int32_t priority, tb_stream **out);
// The stream behind the vendor's own handle: one known here or, made once, a wrapper that does not own it.
tb_status stream_from_native(int32_t device, uint64_t native, tb_stream **out);
// Of default, pooled and native streams; TB_NOT_FOUND for others.
tb_status stream_device(tb_stream *stream, int32_t *out);
tb_status stream_priority(tb_stream *stream, int32_t *out);

} // namespace tb
