// buffer_dlpack.h -- a Buffer as a DLPack capsule.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "buffers/buffer.h"

namespace tb::allocator {

// The arguments and errors of __dlpack__ and __dlpack_device__ in the Python array API.
nanobind::object export_dlpack(const Buffer &buffer, nanobind::handle stream, nanobind::handle max_version,
                               nanobind::handle dl_device, std::optional<bool> copy);
std::pair<int32_t, int32_t> dlpack_device(const Buffer &buffer);

} // namespace tb::allocator
