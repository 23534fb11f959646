// generator.h -- torch.Generator for tb devices over tb-generator's table.
#pragma once

#include <ATen/core/Generator.h>

namespace tb::backend {

// The device's default generator (device -1: the current device's). Throws for a device out of range.
const at::Generator &default_generator(c10::DeviceIndex device);
// A new, independent generator with PyTorch's default seed.
at::Generator new_generator(c10::DeviceIndex device);

} // namespace tb::backend
