// Launches of kernels in stream order.
#pragma once

#include "drivers/common/host_module.h"
#include "drivers/cpu/stream/stream.h"

namespace tb::drivers::cpu {

// Where the modules of a device are loaded.
Module::Place place_of(Device &device);

// Queues a launch with a copy of its arguments. Fails with a text.
tb_status launch(Stream &stream, Function &function, const tb_launch &config);

} // namespace tb::drivers::cpu
