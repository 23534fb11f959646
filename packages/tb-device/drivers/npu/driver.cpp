// The driver's `self`: what all functions check, and its streams.
#include "drivers/npu/driver.h"

#include <utility>

namespace tb::drivers::npu {

Driver::Driver(const tb_host *host, std::shared_ptr<Runtime> shared)
    : host(host), runtime(std::move(shared)), library(runtime->library), virtual_memory(*runtime, host),
      scratch(*runtime, host), defaults_(static_cast<size_t>(runtime->device_count())) {}

Driver::~Driver() = default;

void Driver::need_device(int32_t device) const {
  if (device >= 0 && device < runtime->device_count()) return;
  refuse(TB_OUT_OF_RANGE, "there is no device %d: %s shows %d, from 0 (ASCEND_RT_VISIBLE_DEVICES)", device,
         library.path.c_str(), runtime->device_count());
}

void Driver::need(const void *pointer, const char *name) const {
  if (!pointer) refuse(TB_INVALID_ARGUMENT, "%s is NULL", name);
}

void Driver::refuse_flags(uint64_t flags, uint64_t known) const {
  if (flags & ~known)
    refuse(TB_INVALID_ARGUMENT, "unknown flags %#llx", static_cast<unsigned long long>(flags & ~known));
}

Stream &Driver::need_stream(int32_t device, tb_stream *handle) const {
  need_device(device);
  need(handle, "stream");
  Stream &stream = *Stream::of(handle);
  if (stream.device != device)
    refuse(TB_INVALID_ARGUMENT, "the stream belongs to device %d, not to device %d", stream.device, device);
  return stream;
}

bool Driver::reaches(int32_t device, int32_t peer) {
  runtime->initialize();
  int32_t can = 0;
  call(library.aclrtDeviceCanAccessPeer, &can, device, peer);
  return can != 0;
}

void Driver::connect(int32_t device, int32_t peer) {
  std::lock_guard lock(peers_mutex_);
  if (connected_.count({device, peer})) return;
  const Bound bound = bind(device);
  call(library.aclrtDeviceEnablePeerAccess, peer, 0u);
  connected_.insert({device, peer});
}

bool Driver::set_enabled(int32_t device, int32_t peer, bool enabled) {
  std::lock_guard lock(peers_mutex_);
  return enabled ? enabled_.insert({device, peer}).second : enabled_.erase({device, peer}) > 0;
}

Stream *Driver::create_stream(int32_t device, Stream::Kind kind) {
  const Bound bound = bind(device);
  sweep(false);
  auto stream = std::make_unique<Stream>(Stream{device, nullptr, kind});
  // Priority 0: the library's document calls the parameter unused.
  call(library.aclrtCreateStreamWithConfig, &stream->native, 0u,
       uint32_t(acl::stream_fast_launch | acl::stream_fast_sync));
  return stream.release();
}

// A stream of its own and not the library's NULL stream, which is the same handle for every device.
Stream *Driver::default_stream(int32_t device) {
  std::unique_lock lock(streams_mutex_);
  if (Stream *known = defaults_[static_cast<size_t>(device)]) return known;
  lock.unlock();
  std::unique_ptr<Stream> fresh(create_stream(device, Stream::Kind::device_default));
  lock.lock();
  Stream *&place = defaults_[static_cast<size_t>(device)];
  if (!place) return place = fresh.release();
  lock.unlock(); // another thread was first
  runtime->give_back_and_log(device, host, library.aclrtDestroyStream, fresh->native);
  return default_stream(device);
}

void Driver::retire(Stream *stream) {
  {
    std::lock_guard lock(streams_mutex_);
    retired_.push_back(stream);
  }
  sweep(false);
}

bool Driver::is_idle(const Stream &stream) {
  try {
    const Bound bound = bind(stream.device);
    int32_t status = acl::stream_not_ready;
    call(library.aclrtStreamQuery, stream.native, &status);
    return status == acl::stream_complete;
  } catch (const Failure &failure) {
    if (host->log) host->log(2, failure.what());
    return false; // asked again at the next sweep
  }
}

void Driver::sweep(bool wait) {
  std::vector<Stream *> candidates;
  {
    std::lock_guard lock(streams_mutex_);
    candidates.swap(retired_);
  }
  std::vector<Stream *> busy;
  for (Stream *stream : candidates) {
    if (!wait && !is_idle(*stream)) {
      busy.push_back(stream);
      continue;
    }
    // Logs failures that were not reported.
    runtime->give_back_and_log(stream->device, host, library.aclrtSynchronizeStream, stream->native);
    runtime->give_back_and_log(stream->device, host, library.aclrtDestroyStream, stream->native);
    delete stream;
  }
  std::lock_guard lock(streams_mutex_);
  retired_.insert(retired_.end(), busy.begin(), busy.end());
}

void Driver::shut_down() {
  for (Stream *&stream : defaults_)
    if (stream) retired_.push_back(std::exchange(stream, nullptr));
  sweep(true);
  scratch.clear();
}

} // namespace tb::drivers::npu
