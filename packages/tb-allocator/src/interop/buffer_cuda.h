// buffer_cuda.h -- a Buffer for libraries that use CUDA's array interface, and copies from plain addresses.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "buffers/buffer.h"

namespace tb::allocator {

nanobind::dict cuda_array_interface(const Buffer &buffer);
// Copies from any memory of the host or of a device, in the order of the buffer's stream, after the work that is queued
// now on the stream `after`: the address of a tb_stream, or 0.
void copy_from_address(const Buffer &buffer, uintptr_t source, uintptr_t after);

} // namespace tb::allocator
