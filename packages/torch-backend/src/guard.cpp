// guard.cpp -- c10's device guard: current device, streams and events of tb devices.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <c10/core/Allocator.h>

#include "allocators.h"
#include "components.h"
#include "registration.h"

namespace tb::backend {
namespace {

tb_event *as_event(void *event) { return static_cast<tb_event *>(event); }

struct DeviceGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return device_type; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    setDevice(device);
    return previous;
  }
  c10::Device getDevice() const override { return make_device(components.device.current_device()); }
  // A device without a number is the current one, so there is nothing to do.
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == device_type, "expected a tb device, but got ", device);
    if (!device.has_index() || device.index() == components.device.current_device()) return;
    ensure_ready();
    check(components.device.set_current_device(device.index()), "set_current_device", device.index());
  }
  // Destructors restore the previous device with this. It fails only after a fork or at the end of the process, when no
  // operation can use the current device.
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (!device.has_index() || device.index() == components.device.current_device()) return;
    if (components.device.set_current_device(device.index()) != TB_OK) drop_error();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

  // Autograd calls this for every tensor that it records, inside functions that must not throw. In a forked child, or
  // after the driver is closed, the result does not matter: the kernel that follows throws with the reason.
  c10::Stream getStream(c10::Device device) const override {
    const Readiness state = readiness.load(std::memory_order_acquire);
    if (state == Readiness::forked || state == Readiness::closed) [[unlikely]]
      return c10::Stream(c10::Stream::DEFAULT, device);
    ensure_ready();
    const int32_t number = resolve(device);
    return to_c10(current_stream(number), number);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    ensure_ready();
    return c10::Stream(c10::Stream::DEFAULT, make_device(resolve(device)));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    ensure_ready();
    tb_device_info info{};
    info.struct_size = sizeof info;
    const int32_t number = resolve(device);
    if (high_priority) check(components.device.device_info(number, &info), "device_info", number);
    return getNewStream(device, info.priority_greatest);
  }
  // The stream is of the pool, which is shared and never destroyed, as c10 requires.
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    ensure_ready();
    const int32_t number = resolve(device);
    tb_stream *stream = nullptr;
    check(components.stream.from_pool(number, priority, &stream), "from_pool", number);
    return to_c10(stream, number);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream previous = getStream(stream.device());
    const int32_t number = resolve(stream.device());
    check(components.stream.set_current(number, from_c10(stream)), "set_current", number);
    return previous;
  }
  void *getStreamNativeHandle(const c10::Stream stream) const override {
    ensure_ready();
    uint64_t native = 0;
    check(components.api->stream_native(components.driver, from_c10(stream), &native), "stream_native",
          stream.device_index());
    return reinterpret_cast<void *>(static_cast<uintptr_t>(native));
  }
  bool isStreamCapturing(const c10::Stream &stream) const override {
    if (readiness.load() != Readiness::ready || __atomic_load_n(components.stream.capturing, __ATOMIC_RELAXED) == 0)
      return false;
    void *capture = nullptr;
    check(components.stream.capture_part(from_c10(stream), nullptr, &capture), "capture_part", stream.device_index());
    return capture != nullptr;
  }
  bool queryStream(const c10::Stream &stream) const override {
    ensure_ready();
    return query(components.api->stream_query(components.driver, from_c10(stream)), "stream_query",
                 stream.device_index());
  }
  void synchronizeStream(const c10::Stream &stream) const override {
    ensure_ready();
    check_wait(components.api->stream_synchronize(components.driver, from_c10(stream)), "stream_synchronize",
               stream.device_index());
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    ensure_ready();
    const int32_t number = device >= 0 ? device : components.device.current_device();
    check_wait(components.api->device_synchronize(components.driver, number), "device_synchronize", number);
  }

  // c10 makes an event at its first record. From then on `device` is the event's device, and a stream of another device
  // is refused here before it reaches the driver.
  void record(void **event, const c10::Stream &stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    ensure_ready();
    TORCH_CHECK(device == -1 || device == stream.device_index(), "an event of tb:", static_cast<int>(device),
                " cannot record work of a stream of ", stream.device(), ": make an event for that device");
    tb_stream *queue = from_c10(stream);
    if (!*event) {
      tb_event *made = nullptr;
      check(components.stream.event_acquire(resolve(stream.device()),
                                            flag == c10::EventFlag::BACKEND_DEFAULT ? TB_EVENT_TIMING : 0, &made),
            "event_acquire", stream.device_index());
      *event = made;
    }
    check(components.api->event_record(components.driver, as_event(*event), queue), "event_record",
          stream.device_index());
  }
  void block(void *event, const c10::Stream &stream) const override {
    if (!event) return;
    ensure_ready();
    check(components.api->stream_wait_event(components.driver, from_c10(stream), as_event(event)), "stream_wait_event",
          stream.device_index());
  }
  bool queryEvent(void *event) const override {
    if (!event) return true;
    ensure_ready();
    return query(components.api->event_query(components.driver, as_event(event)), "event_query", -1);
  }
  void synchronizeEvent(void *event) const override {
    if (!event) return;
    ensure_ready();
    check_wait(components.api->event_synchronize(components.driver, as_event(event)), "event_synchronize", -1);
  }
  double elapsedTime(void *start, void *end, const c10::DeviceIndex device) const override {
    TORCH_CHECK(start && end, "both events must be recorded before the time between them can be asked for");
    ensure_ready();
    int64_t nanoseconds = 0;
    const tb_status status =
        components.api->event_elapsed_ns(components.driver, as_event(start), as_event(end), &nanoseconds);
    TORCH_CHECK(status != TB_NOT_READY,
                "the work before one of the two events is not done yet: call end.synchronize() first");
    check(status, "event_elapsed_ns", device);
    return static_cast<double>(nanoseconds) / 1e6;
  }
  // After a fork, and at the end of the process, the handle is invalid and not released.
  void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override {
    if (event && readiness.load() == Readiness::ready) components.stream.event_release(as_event(event));
  }

  void recordDataPtrOnStream(const c10::DataPtr &data, const c10::Stream &stream) const override {
    record_stream(data, stream);
  }

  // All types that PyTorch's CPU kernels convert. Quantized types have dispatch keys of their own and are not
  // supported.
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    auto &types = capability.capability_data.supported_scalar_types;
    types.has_QInt8 = types.has_QUInt8 = types.has_QInt32 = types.has_QUInt4x2 = types.has_QUInt2x4 = 0;
    return capability;
  }

private:
  static bool query(tb_status status, const char *function, int32_t device) {
    if (status == TB_NOT_READY) return false;
    check_wait(status, function, device);
    return true;
  }
};

} // namespace

void register_guard() {
  static const DeviceGuard guard;
  c10::impl::registerDeviceGuard(device_type, &guard);
}

} // namespace tb::backend
