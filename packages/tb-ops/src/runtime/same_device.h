// The exception for tensors on different devices, which every kernel and every fallback raises.
#pragma once
#include <c10/core/Device.h>

namespace tb::ops {

// Throws c10::Error (RuntimeError in Python) with the beginning that PyTorch gives this error for every accelerator.
[[noreturn]] void refuse_devices(const char *operation, c10::Device first, c10::Device other);

} // namespace tb::ops
