// components.h -- the tables of the other components, the open driver, and whether this process may use them.
//
// The one place with mutable state on the C++ side. Everything here is idle until the first real use of the device:
// then ensure_ready() runs torch_backend's Python initialization once (open the driver, register the kernels).
#pragma once

#include <atomic>
#include <cstdint>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "tb/component.h"
#include "tb/failures.h"

namespace tb {

enum class Readiness : int32_t { cold, ready, closed, forked };

struct Components {
  tb_device_table device;
  tb_stream_table stream;
  tb_allocator_table allocator;
  tb_generator_table generator;
  const tb_driver_api *api = nullptr; // set by open_driver, then constant
  tb_driver *driver = nullptr;
};

extern Components components;
extern std::atomic<Readiness> readiness;

// Copies the tables. Returns false with a Python error set.
bool connect_components();
// Opens the process's driver. Throws with the driver's own reason; may be tried again.
void open_driver();
// Marks the process ready and tells torch that no lazy initialization is needed any more.
void set_ready();
// A forked child of a process that had used a driver: every use of the device is refused.
bool in_bad_fork() noexcept;
// Devices of the driver, 0 on any failure. Opens the driver at the first call; a failure is remembered, because
// autograd asks at every backward pass, also on stock CPU tensors.
c10::DeviceIndex device_count() noexcept;

// The slow path of ensure_ready: takes Python's lock, so call it with no lock held.
void make_ready();
inline void ensure_ready() {
  if (readiness.load(std::memory_order_acquire) != Readiness::ready) [[unlikely]]
    make_ready();
}

// ---- devices and streams as c10 has them --------------------------------------------------------------------------
// A c10::StreamId is the tb_stream's address; 0 is the device's default stream, as c10 guarantees. Streams we hand out
// are normalized (the default stream is always 0), so that equal streams compare equal.

constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;

inline c10::Device make_device(int32_t device) { return {device_type, static_cast<c10::DeviceIndex>(device)}; }
// The device that `device` names on this thread: its own number, or the current one for a device without number.
inline int32_t resolve(c10::Device device) {
  return device.has_index() ? device.index() : components.device.current_device();
}
c10::Stream to_c10(tb_stream *stream, int32_t device);
tb_stream *from_c10(const c10::Stream &stream);
// This thread's current stream of a device; throws for a device out of range.
tb_stream *current_stream(int32_t device);

// ---- failures -----------------------------------------------------------------------------------------------------

// Throws what a component reported (tb/failures.h), with the whole text for the user.
[[noreturn]] void raise(tb_status status, const char *function, int32_t device, Failed what = Failed::call);
inline void check(tb_status status, const char *function, int32_t device = -1) {
  if (status != TB_OK) [[unlikely]]
    raise(status, function, device);
}
// Throws what a Python exception of this thread stands for.
[[noreturn]] void raise_python_error();
// Of a query or a synchronise, where failures of queued work appear and its warnings are told.
inline void check_wait(tb_status status, const char *function, int32_t device = -1) {
  if (status != TB_OK) [[unlikely]]
    raise(status, function, device, Failed::work);
  if (components.device.tell() != 0) [[unlikely]]
    raise_python_error();
}

} // namespace tb
