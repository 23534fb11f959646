// Records what a program knows about the progress of its streams.
#include "layers/validate/progress.h"

#include <algorithm>

namespace tb::layers {

void StreamProgress::mark(uint64_t position) {
  uint64_t now = done_.load(std::memory_order_relaxed);
  while (now < position && !done_.compare_exchange_weak(now, position, std::memory_order_release)) {
  }
}

std::shared_ptr<const Joined> StreamProgress::joined() const {
  std::lock_guard lock(mutex_);
  return joined_;
}

void StreamProgress::join(const Joined &others) {
  std::lock_guard lock(mutex_);
  Joined merged;
  if (joined_)
    for (const auto &one : *joined_)
      if (!one.first->passed(one.second)) merged.push_back(one);
  for (const auto &[stream, position] : others) {
    if (stream.get() == this || stream->passed(position)) continue;
    const auto same = std::ranges::find(merged, stream, [](const auto &one) { return one.first; });
    if (same == merged.end())
      merged.emplace_back(stream, position);
    else
      same->second = std::max(same->second, position);
  }
  joined_ = std::make_shared<const Joined>(std::move(merged));
}

void StreamProgress::forget_joined() {
  std::lock_guard lock(mutex_);
  joined_ = nullptr;
}

EventPoint point_of(const std::shared_ptr<StreamProgress> &stream) {
  return {stream, stream->enqueued(), stream->joined()};
}

void mark(const EventPoint &point) {
  point.stream->mark(point.position);
  if (!point.joined) return;
  for (const auto &[stream, position] : *point.joined) stream->mark(position);
}

void join(StreamProgress &stream, const EventPoint &point) {
  Joined others{{point.stream, point.position}};
  if (point.joined) others.insert(others.end(), point.joined->begin(), point.joined->end());
  stream.join(others);
}

std::shared_ptr<StreamProgress> Streams::add(tb_stream *stream, int32_t device) {
  std::lock_guard lock(mutex_);
  auto made = std::make_shared<StreamProgress>(stream, device, next_);
  by_serial_[next_++] = made;
  return made;
}

void Streams::remove(uint32_t serial) {
  std::lock_guard lock(mutex_);
  const auto found = by_serial_.find(serial);
  if (found == by_serial_.end()) return;
  found->second->forget_joined();
  by_serial_.erase(found);
}

std::shared_ptr<StreamProgress> Streams::find(uint32_t serial) const {
  std::lock_guard lock(mutex_);
  const auto found = by_serial_.find(serial);
  return found == by_serial_.end() ? nullptr : found->second;
}

std::vector<EventPoint> Streams::points(int32_t device) const {
  std::lock_guard lock(mutex_);
  std::vector<EventPoint> out;
  for (const auto &[serial, stream] : by_serial_)
    if (stream->device == device) out.push_back(point_of(stream));
  return out;
}

void BlockUse::note(uint32_t serial, uint64_t position) {
  const uint64_t mine = (uint64_t{serial} << position_bits) | (position & position_mask);
  if (serial >= 1u << (64 - position_bits) || position > position_mask) return unknown();
  for (auto &entry : entries_) {
    uint64_t now = entry.load(std::memory_order_relaxed);
    while (now == 0 || now >> position_bits == serial) {
      if (now >= mine && now) return;
      if (entry.compare_exchange_weak(now, mine, std::memory_order_relaxed)) return;
    }
  }
  unknown();
}

} // namespace tb::layers
