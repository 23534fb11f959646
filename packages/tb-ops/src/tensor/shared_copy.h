// Bytes between host and device, on drivers where the host may touch device memory.
#pragma once
#include <c10/core/Device.h>

#include <cstddef>

namespace tb {

// Copies by the calling thread, which has waited for the device's current stream. What is long the stream's worker shares.
void copy_bytes_now(c10::DeviceIndex device, void *to, const void *from, size_t bytes);

} // namespace tb
