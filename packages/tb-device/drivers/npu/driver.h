// The NPU driver's `self`, its streams and events, and its functions as the table has them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "drivers/common/info_struct.h"
#include "drivers/npu/ranges.h"
#include "drivers/npu/runtime.h"
#include "drivers/npu/scratch.h"
#include "drivers/npu/virtual_memory.h"
#include "tb/driver.h"

namespace tb::drivers::npu {

struct Stream {
  enum class Kind { created, device_default, wrapped };
  int32_t device;
  acl::Stream native;
  Kind kind;
  tb_stream *handle() { return reinterpret_cast<tb_stream *>(this); }
  static Stream *of(tb_stream *handle) { return reinterpret_cast<Stream *>(handle); }
};

// An event of the library, destroyed with its last user: allowed while its record is pending.
class NativeEvent {
public:
  NativeEvent(Runtime &runtime, int32_t device, bool timing, const tb_host *host);
  ~NativeEvent();
  NativeEvent(const NativeEvent &) = delete;
  acl::Event native = nullptr;

private:
  Runtime &runtime_;
  int32_t device_;
  const tb_host *host_;
};

struct Event {
  int32_t device;
  uint64_t flags;
  std::mutex mutex;
  std::shared_ptr<NativeEvent> native; // the point of the last record; NULL before the first
  tb_event *handle() { return reinterpret_cast<tb_event *>(this); }
  static Event *of(tb_event *handle) { return reinterpret_cast<Event *>(handle); }
  std::shared_ptr<NativeEvent> point() {
    std::lock_guard lock(mutex);
    return native;
  }
};

class Driver {
public:
  Driver(const tb_host *host, std::shared_ptr<Runtime> runtime);
  ~Driver();
  tb_driver *handle() noexcept { return reinterpret_cast<tb_driver *>(this); }

  const tb_host *const host;
  const std::shared_ptr<Runtime> runtime;
  const Library &library;
  Ranges ranges; // blocks of device memory, pinned and registered host memory
  VirtualMemory virtual_memory;
  Scratch scratch;
  std::atomic<size_t> stream_count{0}, event_count{0}; // handles given out

  void need_device(int32_t device) const;
  void need(const void *pointer, const char *name) const;
  void refuse_flags(uint64_t flags, uint64_t known) const;
  // The stream of a call that names the device too.
  Stream &need_stream(int32_t device, tb_stream *handle) const;
  Bound bind(int32_t device) { return Bound(*runtime, device, host); }
  template <class F, class... A> void call(const F &function, A... arguments) const {
    runtime->call(function, arguments...);
  }

  bool reaches(int32_t device, int32_t peer);
  // The library's access in this direction, kept until the device is reset.
  void connect(int32_t device, int32_t peer);
  // The state that peer_enable and peer_disable report; false if it was so already.
  bool set_enabled(int32_t device, int32_t peer, bool enabled);

  Stream *create_stream(int32_t device, Stream::Kind kind);
  Stream *default_stream(int32_t device);
  // Destroys it as soon as its work is done: aclrtDestroyStream would wait.
  void retire(Stream *stream);
  // Destroys retired streams whose work is done, or all after waiting for it.
  void sweep(bool wait);
  // Waits for default and retired streams, and gives everything back; what fails is logged.
  void shut_down();

private:
  std::mutex streams_mutex_;
  std::vector<Stream *> defaults_; // by device; NULL until asked for
  std::vector<Stream *> retired_;
  std::mutex peers_mutex_;
  std::set<std::pair<int32_t, int32_t>> enabled_, connected_; // from a device to a peer
  bool is_idle(const Stream &stream);
};

// Runs the body of a function of the table. Exceptions become statuses here.
template <class Body> tb_status guarded(const tb_host *host, Body &&body) noexcept;
template <class Body> tb_status with(tb_driver *self, Body &&body) noexcept {
  if (!self) return TB_INVALID_ARGUMENT; // there is no host to take a text
  Driver &driver = *reinterpret_cast<Driver *>(self);
  return guarded(driver.host, [&]() -> tb_status {
    if constexpr (std::is_void_v<decltype(body(driver))>)
      return body(driver), TB_OK;
    else
      return body(driver);
  });
}

template <class Body> tb_status guarded(const tb_host *host, Body &&body) noexcept {
  try {
    return body();
  } catch (const Failure &failure) {
    host->set_error(failure.status, failure.code, failure.what());
    return failure.status;
  } catch (const std::bad_alloc &) {
    host->set_error(TB_OUT_OF_MEMORY, 0, "out of host memory for the driver's own records");
    return TB_OUT_OF_MEMORY;
  } catch (const std::exception &error) {
    host->set_error(TB_INTERNAL, 0, error.what());
    return TB_INTERNAL;
  }
}

#include "drivers/common/declare_slots.inc"

} // namespace tb::drivers::npu
