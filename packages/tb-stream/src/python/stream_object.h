// stream_object.h -- tb_stream.Stream: a device and a borrowed handle.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

#include "host.h"

namespace tb {

struct Stream {
  int32_t device;
  tb_stream *handle;

  friend bool operator==(const Stream &, const Stream &) = default;
};

// The device asked, else the thread's current one. Raises for one out of range.
int32_t device_or_current(std::optional<int32_t> device);
// This thread's current stream of the device.
Stream current_stream_of(std::optional<int32_t> device);
// A Stream, or any object with __tb_stream__() -> (version, handle) whose handle tb-stream knows. None: the current
// stream of the current device.
Stream stream_argument(nanobind::handle object);

void bind_stream(nanobind::module_ &m);
void bind_event(nanobind::module_ &m);

} // namespace tb
