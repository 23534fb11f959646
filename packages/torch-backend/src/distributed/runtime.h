// runtime.h -- what this library holds of the other components: their tables, the open driver, the current stream.
//
// It is a library beside _core, which is loaded with the first process group of tb: a PyTorch without distributed training
// has no c10d to link with, and a program without process groups does not pay for it.
#pragma once
#include <c10/core/Device.h>

#include <string>

#include "tb/component.h"
#include "tb/failures.h"
#include "tb/on_streams.h"
#include "tb/races.h"

namespace tb::distributed {

inline constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;

struct Runtime {
  tb_device_table device{};
  tb_stream_table stream{};
  tb_allocator_table allocator{};
  const tb_driver_api *driver = nullptr; // open() sets it and what follows; constant afterwards
  tb_driver *self = nullptr;
  bool host_accessible = false; // the host may touch the memory of every device
  bool closures = false;        // the driver runs our closures in stream order
  tb_races_api races{};         // of the layer races; `layer` is NULL without it
  std::string native;           // the API that its streams belong to, such as "cuda"; "" if it gives no native streams
};
extern Runtime runtime;

// Copies the tables. Returns false with a Python error set.
bool connect_components();
// Opens the process's driver at the first use. A process group alone opens none: DeviceMesh gives a rank its device only
// while tb is untouched.
void open();

inline void check(tb_status status, const char *function, int32_t device = -1, Failed what = Failed::call) {
  if (status != TB_OK) [[unlikely]]
    throw_reported_failure(runtime.device, status, function, device, what);
}

// This thread's current stream of a device.
inline tb_stream *current_stream(int32_t device) {
  tb_stream *stream = runtime.stream.current(device);
  if (!stream) [[unlikely]]
    check(TB_OUT_OF_RANGE, "current", device);
  return stream;
}

// Makes the API's streams under tb's the current ones of another device of PyTorch's, while what it returns lives.
OnStreams on_streams(c10::DeviceType type, int32_t device);

inline c10::Device make_device(int32_t device) { return {device_type, static_cast<c10::DeviceIndex>(device)}; }

} // namespace tb::distributed
