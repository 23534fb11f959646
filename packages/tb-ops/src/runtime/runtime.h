// What tb-ops holds of the other components: their tables, the driver, the current stream; and how their failures
// become PyTorch's exceptions. No kernel is registered, so none of this is used, before open().
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include "tb/component.h"
#include "tb/failures.h"

namespace tb::ops {

inline constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;
inline constexpr c10::DispatchKeySet key_set{c10::DispatchKey::PrivateUse1};

struct Runtime {
  tb_device_table device{};
  tb_stream_table stream{};
  tb_generator_table generator{};
  const tb_driver_api *driver = nullptr;
  tb_driver *self = nullptr;
  c10::Allocator *allocator = nullptr; // PyTorch's for this device type, registered by torch-backend
  bool host_accessible = false;        // every device's memory may be touched by the host
  bool closures = false;               // the driver runs our closures: kernels are native and asynchronous
};
extern Runtime runtime;

// Opens the process's driver; throws c10::Error with the whole story when there is none.
void open();

// Throws what `status` stands for (tb/failures.h), with the whole text.
[[noreturn]] void fail(tb_status status, const char *function, c10::DeviceIndex device, Failed what = Failed::call);
inline void check(tb_status status, const char *function, c10::DeviceIndex device, Failed what = Failed::call) {
  if (status != TB_OK) [[unlikely]]
    fail(status, function, device, what);
}
// Makes a reserved closure run. With TB_LAUNCH_BLOCKING this is where its work fails.
inline void commit(tb_stream *stream, void *storage, const tb_closure &closure, c10::DeviceIndex device) {
  check(runtime.driver->closure_commit(runtime.self, stream, storage, &closure), closure.name, device, Failed::work);
}

inline tb_stream *current_stream(c10::DeviceIndex device) {
  tb_stream *stream = runtime.stream.current(device);
  if (!stream) [[unlikely]]
    fail(TB_INTERNAL, "current_stream", device);
  return stream;
}

// What the driver says of a device, and of itself; after open().
tb_device_info device_info(c10::DeviceIndex device);
tb_driver_info driver_info();

inline c10::DeviceIndex device_number(const at::Tensor &tensor) { return tensor.device().index(); }

// A new tensor on a device; strides empty: contiguous.
at::Tensor empty(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype, c10::DeviceIndex device);
// A new tensor of a contiguous one's shape and type, without computing its size again.
at::Tensor empty_like_contiguous(const at::Tensor &tensor);

// Sets the thread's device for as long as it lives; free when it is already that one.
class DeviceScope {
public:
  explicit DeviceScope(c10::DeviceIndex device) : before_(runtime.device.current_device()) {
    if (before_ != device) check(runtime.device.set_current_device(changed_ = device), "set_device", device);
  }
  ~DeviceScope() {
    if (changed_ >= 0) runtime.device.set_current_device(before_);
  }
  DeviceScope(const DeviceScope &) = delete;
  DeviceScope &operator=(const DeviceScope &) = delete;

private:
  int32_t before_, changed_ = -1;
};

} // namespace tb::ops
