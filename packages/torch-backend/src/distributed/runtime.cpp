// runtime.cpp -- imports the tables of the other components and opens the driver.
#include <Python.h>

#include "runtime.h"

#include <mutex>

#include "tb/component_python.h"

namespace tb::distributed {

Runtime runtime;

bool connect_components() {
  constexpr const char *me = "torch-backend";
  return tb_import(me, "tb-device", "tb_device._core", TB_DEVICE_API_MAJOR, 2, &runtime.device,
                   sizeof runtime.device) &&
         tb_import(me, "tb-stream", "tb_stream._core", TB_STREAM_API_MAJOR, 2, &runtime.stream,
                   sizeof runtime.stream) &&
         tb_import(me, "tb-allocator", "tb_allocator._core", TB_ALLOCATOR_API_MAJOR, 0, &runtime.allocator,
                   sizeof runtime.allocator);
}

void open() {
  static std::once_flag opened;
  std::call_once(opened, [] {
    const tb_driver_api *driver = nullptr;
    tb_driver *self = nullptr;
    check(runtime.device.driver(&driver, &self), "driver");
    int32_t count = 0;
    check(runtime.device.device_count(&count), "device_count");
    bool host_accessible = count > 0;
    for (int32_t i = 0; i < count; i++) {
      tb_device_info info{};
      info.struct_size = sizeof info;
      check(runtime.device.device_info(i, &info), "device_info", i);
      host_accessible &= (info.flags & TB_DEVICE_HOST_ACCESSIBLE) != 0;
    }
    runtime.host_accessible = host_accessible;
    runtime.closures = (driver->groups & TB_GROUP_CLOSURE) != 0;
    if (driver->groups & TB_GROUP_NATIVE) {
      tb_driver_info info{};
      info.struct_size = sizeof info;
      check(driver->get_info(self, &info), "get_info");
      runtime.native = info.native;
    }
    if (driver->get_extension(self, TB_RACES_EXTENSION, TB_RACES_VERSION, &runtime.races, sizeof runtime.races) !=
        TB_OK) {
      tb_error none{};
      none.struct_size = sizeof none;
      runtime.device.take_error(&none);
    }
    runtime.self = self;
    runtime.driver = driver;
  });
}

OnStreams on_streams(c10::DeviceType type, int32_t number) {
  const auto device = static_cast<c10::DeviceIndex>(number);
  return OnStreams(type, device, [](c10::DeviceIndex of) {
    uint64_t handle = 0;
    check(runtime.driver->stream_native(runtime.self, current_stream(of), &handle), "stream_native", of);
    return handle;
  });
}

} // namespace tb::distributed
