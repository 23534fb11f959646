// Copies of bytes between host and device, on drivers whose memory the host may touch.
#pragma once
#include <c10/core/Device.h>

#include <cstddef>

namespace tb::ops {

// Copies on the calling thread, which has waited for the device's current stream. The stream's worker helps with a long
// copy.
void copy_bytes_now(c10::DeviceIndex device, void *to, const void *from, size_t bytes);

} // namespace tb::ops
