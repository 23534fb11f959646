// CPU generators that continue the sequence of a tb generator, for CPU kernels that draw random numbers. They are reproducible
// by torch.manual_seed, but are not the numbers that tb's own random operators draw.
#pragma once
#include <ATen/core/Generator.h>

#include <optional>

#include "random/philox_state.h"

namespace tb::ops {

// In two steps, since captured work makes the generator at each launch. Without a generator: the device's own.
PhiloxState reserve_cpu_generator(const std::optional<at::Generator> &given, c10::DeviceIndex device);
at::Generator cpu_generator(const PhiloxState &philox);

} // namespace tb::ops
