// stream_list.cpp -- every stream of the driver whose worker may still run.
#include "stream_list.h"

#include <algorithm>

#include "device.h"

namespace tb::cpu {

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
  if (draining_.capacity() < most) draining_.reserve(2 * most); // so that retire() cannot fail
  live_.push_back(Ref<Stream>::adopt(new Stream(device, priority, is_default)));
  return live_.back().get();
}

void StreamList::retire(Stream &stream) {
  std::lock_guard lock(mutex_);
  const auto place =
      std::find_if(live_.begin(), live_.end(), [&](const Ref<Stream> &other) { return other.get() == &stream; });
  if (place == live_.end()) return;
  stream.end();
  draining_.push_back(std::move(*place));
  *place = std::move(live_.back());
  live_.pop_back();
  reap();
}

std::vector<Ref<Stream>> StreamList::of_device(const Device &device) {
  std::lock_guard lock(mutex_);
  std::vector<Ref<Stream>> found;
  for (const auto *list : {&live_, &draining_})
    for (const Ref<Stream> &stream : *list)
      if (&stream->device() == &device) found.push_back(stream);
  return found;
}

size_t StreamList::live_count() {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::count_if(live_.begin(), live_.end(), [](const Ref<Stream> &stream) { return !stream->is_default(); }));
}

size_t StreamList::worker_count() {
  std::lock_guard lock(mutex_);
  reap();
  size_t count = draining_.size();
  for (const Ref<Stream> &stream : live_) count += stream->ring().has_memory();
  return count;
}

void StreamList::close() {
  std::lock_guard lock(mutex_);
  for (const Ref<Stream> &stream : live_) stream->end();
  for (auto *list : {&live_, &draining_}) {
    for (const Ref<Stream> &stream : *list) join_and_keep_failure(*stream);
    list->clear();
  }
}

} // namespace tb::cpu
