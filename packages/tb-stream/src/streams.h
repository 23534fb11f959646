// streams.h -- the current streams of a thread, default streams, the pools of streams, and the device of a handle.
//
// All functions are thread-safe. The functions that return a status set an error text when they fail.
#pragma once

#include "host.h"

namespace tb::stream {

// PyTorch's device index is a signed byte.
inline constexpr int32_t device_limit = 128;
inline constexpr uint32_t pool_size = 32;

// This thread's current streams of the first devices, NULL until one is asked for or set. Every operator of a program
// reads them, so they are at a fixed distance from the thread pointer: an access is one instruction instead of a call.
// A library that is loaded late has little room there (some 2 KiB for all libraries together), so further devices are
// stored elsewhere.
inline constexpr int32_t near_devices = 8;
[[gnu::tls_model("initial-exec")]] extern thread_local constinit tb_stream *near_streams[near_devices];

// This thread's current stream, which is the device's default stream until set. NULL in the cases of default_stream().
tb_stream *current_stream(int32_t device);
// NULL restores the default stream. TB_INVALID_ARGUMENT if the stream is known to belong to another device. A stream
// that is not known (the caller wrapped it) is not checked; the caller keeps it alive while it is current in any
// thread.
tb_status set_current_stream(int32_t device, tb_stream *stream);
// NULL, with an error text, for a device out of range or if the driver fails.
tb_stream *default_stream(int32_t device);
// The same two functions with a status.
tb_status find_current_stream(int32_t device, tb_stream **out);
tb_status find_default_stream(int32_t device, tb_stream **out);
// Returns the streams of the pool of (device, priority) one after another. A priority out of range is clamped.
tb_status stream_from_pool(int32_t device, int32_t priority, tb_stream **out);
// A stream that nobody else is given before release_stream(), which takes only such streams. NULL is a no-op.
tb_status acquire_stream(int32_t device, int32_t priority, tb_stream **out);
tb_status release_stream(tb_stream *stream);
// The stream behind the vendor's own handle: a known stream, or a wrapper that is made once and does not own the
// handle.
tb_status stream_from_native(int32_t device, uint64_t native, tb_stream **out);
// The device and priority of default, pooled and wrapped streams; TB_NOT_FOUND for others.
tb_status stream_device(tb_stream *stream, int32_t *out);
tb_status stream_priority(tb_stream *stream, int32_t *out);

} // namespace tb::stream
