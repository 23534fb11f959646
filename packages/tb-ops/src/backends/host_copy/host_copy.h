// Random numbers and dropout for devices whose memory the host may not touch. tb-generator makes the numbers on the
// host, and they are copied to the device. For a given seed they are bit-identical to those of every other driver.
#pragma once
#include <torch/library.h>

#include "runtime/runtime.h"

namespace tb::ops::host_copy {

// Whether the backend host does not serve the driver.
bool serves(const Runtime &runtime);
// Makes the default kernel run convolutions, and registers the random operators that no other backend has.
void install(torch::Library &aten, torch::Library &autograd);

} // namespace tb::ops::host_copy
