// components.h -- the tables of the other components, the open driver, and whether this process may use them.
//
// All mutable state of the C++ side is here. Nothing happens before the first use of the device: then ensure_ready()
// runs torch_backend's Python initialization once, which opens the driver and registers the kernels.
#pragma once

#include <atomic>
#include <cstdint>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "tb/component.h"
#include "tb/failures.h"

namespace tb::backend {

enum class Readiness : int32_t { cold, ready, closed, forked };

struct Components {
  tb_device_table device;
  tb_stream_table stream;
  tb_allocator_table allocator;
  tb_generator_table generator;
  const tb_driver_api *api = nullptr; // open_driver sets it; constant afterwards
  tb_driver *driver = nullptr;
};

extern Components components;
extern std::atomic<Readiness> readiness;

// Copies the tables. Returns false with a Python error set.
bool connect_components();
// Opens the process's driver. Throws with the driver's own reason; a later call tries again.
void open_driver();
// Marks the process ready; torch does not call the lazy initialization any more.
void set_ready();
// Whether this is a forked child of a process that had used a driver. Every use of the device throws there.
bool in_bad_fork() noexcept;
// The number of devices, 0 on any failure. The first call opens the driver. A failure is cached, because autograd asks
// at every backward pass, also for CPU tensors.
c10::DeviceIndex device_count() noexcept;

// The slow path of ensure_ready. It takes the GIL, so the caller must hold no lock.
void make_ready();
inline void ensure_ready() {
  if (readiness.load(std::memory_order_acquire) != Readiness::ready) [[unlikely]]
    make_ready();
}

// ---- devices and streams as c10 has them --------------------------------------------------------------------------
// A c10::StreamId is the address of the tb_stream; 0 is the device's default stream, as c10 guarantees. to_c10() always
// makes the default stream 0, so that equal streams compare equal.

constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;

inline c10::Device make_device(int32_t device) { return {device_type, static_cast<c10::DeviceIndex>(device)}; }
// The number of `device`, or that of this thread's current device if it has none.
inline int32_t resolve(c10::Device device) {
  return device.has_index() ? device.index() : components.device.current_device();
}
c10::Stream to_c10(tb_stream *stream, int32_t device);
tb_stream *from_c10(const c10::Stream &stream);
// This thread's current stream of a device. Throws for a device out of range.
tb_stream *current_stream(int32_t device);

// ---- failures -----------------------------------------------------------------------------------------------------

// Throws the failure that a component reported.
[[noreturn]] inline void raise(tb_status status, const char *function, int32_t device, Failed what = Failed::call) {
  throw_reported_failure(components.device, status, function, device, what);
}
inline void check(tb_status status, const char *function, int32_t device = -1) {
  if (status != TB_OK) [[unlikely]]
    raise(status, function, device);
}
// Takes an error of this thread that is not reported.
void drop_error();
// Throws the Python exception that is set on this thread.
[[noreturn]] void raise_python_error();
// check() for a query or a synchronise, where failures of queued work appear. Reports its warnings too.
inline void check_wait(tb_status status, const char *function, int32_t device = -1) {
  if (status != TB_OK) [[unlikely]]
    raise(status, function, device, Failed::work);
  if (components.device.tell() != 0) [[unlikely]]
    raise_python_error();
}

} // namespace tb::backend
