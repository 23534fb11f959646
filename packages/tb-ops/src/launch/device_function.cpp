// Loads and launches by the driver's group MODULE.
#include "launch/device_function.h"

#include "launch/launch_blocking.h"
#include "runtime/synchronize.h"

namespace tb::ops {

DeviceFunction load_function(c10::DeviceIndex device, const std::string &image, const char *entry,
                             const char *loading) {
  tb_module *module = nullptr;
  tb_function *handle = nullptr;
  check(runtime.driver->module_load(runtime.self, device, image.data(), image.size(), nullptr, &module), loading,
        device);
  check(runtime.driver->module_function(runtime.self, module, entry, &handle), "module_function", device);
  tb_function_info info{};
  info.struct_size = sizeof info;
  check(runtime.driver->function_get_info(runtime.self, handle, &info), "function_get_info", device);
  return {handle, info.max_threads};
}

void launch_function(c10::DeviceIndex device, const DeviceFunction &function, const tb_launch &config,
                     const char *name) {
  check(runtime.driver->launch(runtime.self, current_stream(device), function.handle, &config), name, device);
  if (launch_blocking()) synchronize(device, name);
}

} // namespace tb::ops
