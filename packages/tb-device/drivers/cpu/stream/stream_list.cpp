// Creates, ends and joins streams.
#include "drivers/cpu/stream/stream_list.h"

#include <algorithm>

#include "drivers/cpu/device/device.h"

namespace tb::drivers::cpu {

namespace {
void join_and_keep_failure(Stream &stream) {
  stream.join();
  if (auto failure = stream.failures().peek(UINT64_MAX))
    stream.device().orphaned_failures().keep(std::move(failure), 0);
}
} // namespace

void StreamList::reap() {
  const auto drained = std::partition(draining_.begin(), draining_.end(),
                                      [](const Ref<Stream> &stream) { return !stream->is_drained(); });
  for (auto stream = drained; stream != draining_.end(); ++stream) join_and_keep_failure(**stream);
  draining_.erase(drained, draining_.end());
}

Stream *StreamList::create(Device &device, int32_t priority, bool is_default) {
  std::lock_guard lock(mutex_);
  reap();
  const size_t most = live_.size() + draining_.size() + 1;
  if (draining_.capacity() < most) draining_.reserve(2 * most); // so that drop_handle() cannot fail
  // A stream of another driver, or one from before, is never taken for one of these: numbers are used once.
  static std::atomic<uint64_t> last_native{0};
  live_.push_back({Ref<Stream>::take(new Stream(device, priority, is_default, ++last_native)), 1});
  return live_.back().stream.get();
}

Stream *StreamList::add_handle(uint64_t native) {
  std::lock_guard lock(mutex_);
  for (Live &live : live_)
    if (live.stream->native() == native) return ++live.handles, live.stream.get();
  return nullptr;
}

void StreamList::drop_handle(Stream &stream) {
  std::lock_guard lock(mutex_);
  const auto place =
      std::find_if(live_.begin(), live_.end(), [&](const Live &other) { return other.stream.get() == &stream; });
  if (place == live_.end() || --place->handles != 0) return;
  stream.end();
  draining_.push_back(std::move(place->stream));
  *place = std::move(live_.back());
  live_.pop_back();
  reap();
}

std::vector<Ref<Stream>> StreamList::of_device(const Device &device) {
  std::lock_guard lock(mutex_);
  std::vector<Ref<Stream>> found;
  for (const Live &live : live_)
    if (&live.stream->device() == &device) found.push_back(live.stream);
  for (const Ref<Stream> &stream : draining_)
    if (&stream->device() == &device) found.push_back(stream);
  return found;
}

size_t StreamList::handle_count() {
  std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const Live &live : live_) count += live.handles - live.stream->is_default();
  return count;
}

size_t StreamList::worker_count() {
  std::lock_guard lock(mutex_);
  reap();
  size_t count = draining_.size();
  for (const Live &live : live_) count += live.stream->queue().has_memory();
  return count;
}

void StreamList::close() {
  std::lock_guard lock(mutex_);
  for (Live &live : live_) {
    live.stream->end();
    draining_.push_back(std::move(live.stream)); // create() has made room
  }
  live_.clear();
  join_all();
}

void StreamList::join_destroyed() {
  std::lock_guard lock(mutex_);
  join_all();
}

void StreamList::join_all() {
  for (const Ref<Stream> &stream : draining_) join_and_keep_failure(*stream);
  draining_.clear();
}

} // namespace tb::drivers::cpu
