// stream_handle.h -- the stream that a Python call names: a device and a borrowed handle.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

#include "host.h"

namespace tb::stream {

// Version 0 of the protocols __tb_stream__ and __cuda_stream__.
inline constexpr int protocol_version = 0;

// tb_stream.Stream. The handle is tb-stream's own or the caller's; this object never destroys it.
struct Stream {
  int32_t device;
  tb_stream *handle;

  friend bool operator==(const Stream &, const Stream &) = default;
};

// The given device, or this thread's current one. Raises IndexError for a device out of range.
int32_t device_or_current(std::optional<int32_t> device);
// This thread's current stream of the device.
Stream current_stream_of(std::optional<int32_t> device);
// The stream behind the vendor's own handle.
Stream stream_of_native(uint64_t native, std::optional<int32_t> device);
// Converts an argument: a Stream, an object with __tb_stream__() -> (version, handle) whose handle tb-stream knows, or,
// if the driver is CUDA's, an object with __cuda_stream__(). None means the current stream of the current device.
Stream stream_argument(nanobind::handle object);
// Whether the driver's native handles are CUDA's.
bool is_cuda(const Driver &driver);

} // namespace tb::stream
