// The tables' one instance, opening the driver, and the translation of failures.
#include "runtime.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>

namespace tb {

Runtime runtime;

void fail(tb_status status, const char *function, c10::DeviceIndex device) {
  char text[2048] = "";
  runtime.device.describe_error(status, function, device, text, sizeof text);
  switch (status) {
  case TB_OUT_OF_MEMORY:
    C10_THROW_ERROR(OutOfMemoryError, text);
  case TB_UNSUPPORTED:
    C10_THROW_ERROR(NotImplementedError, text);
  case TB_INVALID_ARGUMENT:
    C10_THROW_ERROR(ValueError, text);
  default:
    C10_THROW_ERROR(Error, text);
  }
}

void open() {
  if (runtime.driver) return;
  const tb_driver_api *driver = nullptr;
  tb_driver *self = nullptr;
  check(runtime.device.driver(&driver, &self), "open", -1);
  int32_t count = 0;
  check(runtime.device.device_count(&count), "device_count", -1);
  TORCH_CHECK(count > 0, "The tb driver is loaded but sees no device. `tb-device doctor` lists what was tried.");
  runtime.host_accessible = true;
  for (int32_t device = 0; device < count; device++) {
    tb_device_info info{};
    info.struct_size = sizeof info;
    check(runtime.device.device_info(device, &info), "device_get_info", c10::DeviceIndex(device));
    runtime.host_accessible &= (info.flags & TB_DEVICE_HOST_ACCESSIBLE) != 0;
  }
  runtime.closures = runtime.host_accessible && (driver->groups & TB_GROUP_CLOSURE) != 0;
  runtime.allocator = c10::GetAllocator(device_type);
  runtime.self = self;
  runtime.driver = driver;
}

void synchronize(c10::DeviceIndex device) {
  check(runtime.driver->stream_synchronize(runtime.self, current_stream(device)), "stream_synchronize", device);
}

at::Tensor empty(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype, c10::DeviceIndex device) {
  DeviceScope scope(device);
  if (strides.empty() && !sizes.empty())
    return at::Tensor(at::detail::empty_generic(sizes, runtime.allocator, key_set, dtype, std::nullopt));
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, runtime.allocator, key_set, dtype));
}

} // namespace tb
