// What all drivers of the process share of one libascendcl: its initialisation and the devices it has set.
//
// The library binds a device to a thread. No function of the table may depend on what its thread did before, so each
// that calls the library holds a Bound, which makes the device current and puts back what was.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "drivers/npu/failure.h"
#include "drivers/npu/library.h"

namespace tb::drivers::npu {

class Runtime {
public:
  // The one of this library, shared by the drivers that are open; the last one to go resets devices and finalises.
  // Throws Failure when the library or its devices cannot be used. Initialises nothing.
  static std::shared_ptr<Runtime> share(Library library);
  explicit Runtime(Library library);
  ~Runtime();
  Runtime(const Runtime &) = delete;

  const Library library;
  int32_t device_count() const { return static_cast<int32_t>(devices_.size()); }

  // Throws what a call of the library fails with, with the library's own text, which is this thread's.
  template <class F, class... A> void call(const F &function, A... arguments) const {
    check(function.name, function(arguments...));
  }
  void check(const char *function, acl::Error error) const {
    if (error) fail(function, error);
  }
  [[noreturn]] void fail(const char *function, acl::Error error) const;

  // Gives something back: also where its device cannot be made current, since the library may not need that. What could
  // not be bound is logged; the code is the function's own.
  template <class F, class A> acl::Error give_back(int32_t device, const tb_host *host, const F &function, A argument);
  // The same for destructors: a failure is logged.
  template <class F, class A>
  void give_back_and_log(int32_t device, const tb_host *host, const F &function, A argument) noexcept {
    if (const acl::Error error = give_back(device, host, function, argument)) log_failure(host, function.name, error);
  }
  void log_failure(const tb_host *host, const char *function, acl::Error error) const noexcept;

  // aclInit, once.
  void initialize();
  // Whether the device was made current through this driver: before that nothing can be queued on it.
  bool was_used(int32_t device) const { return devices_[static_cast<size_t>(device)].context_known; }

private:
  friend class Bound;
  struct Device {
    // Ends with the runtime: kept by one reference of aclrtSetDevice, and one for each further call of it.
    uint64_t references = 0;
    acl::Context context = nullptr;
    std::atomic<bool> context_known{false};
  };
  void set_device(int32_t device);
  void know_context(int32_t device);

  std::mutex mutex_;
  std::atomic<bool> initialized_{false};
  bool ours_ = false; // the library was not initialised before
  std::vector<Device> devices_;
};

// Makes a device current on this thread for the life of the object. Throws Failure.
class Bound {
public:
  Bound(Runtime &runtime, int32_t device, const tb_host *host);
  ~Bound();
  Bound(const Bound &) = delete;
  // Leaves the device current.
  void keep() { restore_ = false; }

private:
  Runtime &runtime_;
  const tb_host *host_;
  acl::Context previous_ = nullptr; // where the library has contexts
  int32_t previous_device_ = -1;    // where it has not
  bool restore_ = false;
};

template <class F, class A>
acl::Error Runtime::give_back(int32_t device, const tb_host *host, const F &function, A argument) {
  std::optional<Bound> bound;
  try {
    bound.emplace(*this, device, host);
  } catch (const Failure &failure) {
    if (host->log) host->log(2, failure.what());
  }
  return function(argument);
}

} // namespace tb::drivers::npu
