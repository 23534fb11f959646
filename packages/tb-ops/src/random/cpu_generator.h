// CPU generators that continue the sequence of a tb generator, for CPU kernels that draw random numbers. Their numbers
// are reproducible by torch.manual_seed, but are not those that tb's own random operators draw.
#pragma once
#include <ATen/core/Generator.h>

#include <optional>

#include "random/philox_state.h"

namespace tb::ops {

// Reserves a state of the given generator, or of the device's default generator, and makes a CPU generator from it.
// These are two steps, since captured work makes its generator at each launch.
PhiloxState reserve_cpu_generator(const std::optional<at::Generator> &given, c10::DeviceIndex device);
at::Generator cpu_generator(const PhiloxState &philox);

} // namespace tb::ops
