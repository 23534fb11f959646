// Functions of images that the driver's module_load takes.
#pragma once
#include <string>

#include "runtime/runtime.h"

namespace tb::ops {

struct DeviceFunction {
  tb_function *handle;
  uint32_t threads; // the most that a block may have
};

// Loads an image, for the life of the process, and finds its function. `loading` names the loading in an error's text.
// Throws if the driver refuses.
DeviceFunction load_function(c10::DeviceIndex device, const std::string &image, const char *entry, const char *loading);

// Queues a launch on the device's current stream; with TB_LAUNCH_BLOCKING=1 it waits for its end. `name` names the work
// in an error's text.
void launch_function(c10::DeviceIndex device, const DeviceFunction &function, const tb_launch &config,
                     const char *name);

} // namespace tb::ops
