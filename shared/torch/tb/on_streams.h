// While it lives, the first of the devices is another PyTorch backend's current device, and the native stream of tb's
// current stream is that backend's current stream on each device.
#pragma once
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/SmallVector.h>

namespace tb {

class OnStreams {
public:
  // native: gives the handle of tb's current stream of a device, a uint64_t. Throws what it throws.
  template <class Native> OnStreams(c10::DeviceType type, c10::ArrayRef<c10::DeviceIndex> devices, Native native)
      : guard_(type), device_before_(guard_.exchangeDevice({type, devices[0]})) {
    try {
      // torch.cuda identifies a stream that it did not make by its handle. 0 is the default stream for both.
      for (const c10::DeviceIndex device : devices)
        streams_before_.push_back(guard_.exchangeStream(
            c10::Stream(c10::Stream::UNSAFE, {type, device}, static_cast<c10::StreamId>(native(device)))));
    } catch (...) {
      restore();
      throw;
    }
  }
  ~OnStreams() { restore(); }
  OnStreams(const OnStreams &) = delete;
  OnStreams &operator=(const OnStreams &) = delete;

private:
  void restore() {
    for (const c10::Stream &stream : streams_before_) guard_.exchangeStream(stream);
    guard_.uncheckedSetDevice(device_before_);
  }
  const c10::impl::VirtualGuardImpl guard_;
  const c10::Device device_before_;
  c10::SmallVector<c10::Stream, 2> streams_before_;
};

} // namespace tb
