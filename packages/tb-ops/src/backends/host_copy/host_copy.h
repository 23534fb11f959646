// Random numbers and dropout for devices whose memory the host may not touch. tb-generator makes the numbers on the host, with
// the bits that a seed gives on every driver, and they are copied.
#pragma once
#include <torch/library.h>

#include "runtime/runtime.h"

namespace tb::ops::host_copy {

// Every driver that the backend host does not serve.
bool serves(const Runtime &runtime);
// Convolutions by the default kernel, and the random operators that no other backend has.
void install(torch::Library &aten, torch::Library &autograd);

} // namespace tb::ops::host_copy
