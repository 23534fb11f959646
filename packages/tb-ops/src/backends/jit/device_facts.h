// What a device's kernels may use, and how they compute best, as its driver says (tb_device_info).
#pragma once
#include <c10/core/Device.h>

#include <string>

namespace tb::ops::jit {

struct DeviceFacts {
  bool float64, atomic64, float_atomics, fma;
  int vector_size = 0; // as in tb_device_info
};

// The first call for a device asks the driver; later calls are cheap. An index below 0, which CPU tensors have, lacks
// nothing. Any thread may call this.
DeviceFacts facts_of(c10::DeviceIndex device);

// The lines before the text of a kernel for a device with these.
std::string kernel_defines(const DeviceFacts &facts);

} // namespace tb::ops::jit
