// Initialising the library, and binding devices to threads.
#include "drivers/npu/runtime.h"

#include <condition_variable>
#include <map>
#include <string>

namespace tb::drivers::npu {

namespace {

// The runtimes of the process by library. One that ends finalises the library, so the next begins after that.
struct Runtimes {
  struct Place {
    std::weak_ptr<Runtime> runtime;
    bool taken = false; // until its destructor is through
  };
  std::mutex mutex;
  std::condition_variable ended;
  std::map<std::string, Place> places;
};

} // namespace

std::shared_ptr<Runtime> Runtime::share(Library library) {
  static auto *all = new Runtimes; // outlives every static of others
  std::unique_lock lock(all->mutex);
  Runtimes::Place &place = all->places[library.path];
  std::shared_ptr<Runtime> runtime;
  all->ended.wait(lock, [&] { return !place.taken || (runtime = place.runtime.lock()); });
  if (runtime) return runtime;
  const auto end = [&place](Runtime *old) {
    delete old;
    std::lock_guard relock(all->mutex);
    place.taken = false;
    all->ended.notify_all();
  };
  runtime = std::shared_ptr<Runtime>(new Runtime(std::move(library)), end);
  place.runtime = runtime;
  place.taken = true;
  return runtime;
}

Runtime::Runtime(Library opened) : library(std::move(opened)) {
  uint32_t count = 0;
  call(library.aclrtGetDeviceCount, &count); // works before aclInit
  devices_ = std::vector<Device>(count);
}

// Failures here cannot be reported: the library is left as it is.
Runtime::~Runtime() {
  for (size_t device = 0; device < devices_.size(); ++device)
    for (uint64_t each = 0; each < devices_[device].references; ++each)
      library.aclrtResetDevice(static_cast<int32_t>(device));
  if (ours_) library.aclFinalize();
}

void Runtime::fail(const char *function, acl::Error error) const {
  throw failure_of(function, error, library.aclGetRecentErrMsg());
}

void Runtime::log_failure(const tb_host *host, const char *function, acl::Error error) const noexcept {
  if (host->log) host->log(2, failure_of(function, error, library.aclGetRecentErrMsg()).what());
}

void Runtime::initialize() {
  if (initialized_) return;
  std::lock_guard lock(mutex_);
  if (initialized_) return;
  const acl::Error error = library.aclInit(nullptr);
  if (error != acl::repeat_initialize) check("aclInit", error); // another user of the library was first
  ours_ = error != acl::repeat_initialize;
  initialized_ = true;
}

void Runtime::set_device(int32_t device) {
  std::lock_guard lock(mutex_);
  call(library.aclrtSetDevice, device);
  ++devices_[static_cast<size_t>(device)].references;
}

void Runtime::know_context(int32_t device) {
  Device &known = devices_[static_cast<size_t>(device)];
  std::lock_guard lock(mutex_);
  if (known.context_known) return;
  if (library.has_contexts()) call(library.aclrtGetCurrentContext, &known.context);
  known.context_known = true;
}

Bound::Bound(Runtime &runtime, int32_t device, const tb_host *host) : runtime_(runtime), host_(host) {
  runtime.initialize();
  const Library &library = runtime.library;
  Runtime::Device &wanted = runtime.devices_[static_cast<size_t>(device)];
  if (library.has_contexts()) {
    // Cheaper than aclrtSetDevice, and unlike it not counted. An error says that the thread has no context.
    const acl::Error error = library.aclrtGetCurrentContext(&previous_);
    if (error == acl::context_null)
      previous_ = nullptr;
    else
      runtime.check("aclrtGetCurrentContext", error);
    if (previous_ && wanted.context_known && previous_ == wanted.context) return;
    if (wanted.context_known) {
      runtime.call(library.aclrtSetCurrentContext, wanted.context);
      restore_ = previous_ != nullptr;
      return;
    }
  } else {
    const acl::Error error = library.aclrtGetDevice(&previous_device_);
    if (error == acl::context_null)
      previous_device_ = -1;
    else
      runtime.check("aclrtGetDevice", error);
    if (previous_device_ == device && wanted.context_known) return;
  }
  runtime.set_device(device);
  restore_ = library.has_contexts() ? previous_ != nullptr : previous_device_ >= 0 && previous_device_ != device;
  runtime.know_context(device);
}

Bound::~Bound() {
  if (!restore_) return;
  acl::Error error = acl::success;
  if (previous_) {
    error = runtime_.library.aclrtSetCurrentContext(previous_);
  } else {
    error = runtime_.library.aclrtSetDevice(previous_device_);
    std::lock_guard lock(runtime_.mutex_);
    if (!error) ++runtime_.devices_[static_cast<size_t>(previous_device_)].references;
  }
  if (error) runtime_.log_failure(host_, "putting back the thread's device", error);
}

} // namespace tb::drivers::npu
