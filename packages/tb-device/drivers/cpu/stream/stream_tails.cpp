// Keeps the streams that live.
#include "drivers/cpu/stream/stream_tails.h"

#include "drivers/cpu/stream/stream.h"

namespace tb::drivers::cpu {

void StreamTails::add(Stream &stream) {
  std::lock_guard lock(mutex_);
  streams_.insert(&stream);
}

void StreamTails::remove(Stream &stream) noexcept {
  std::lock_guard lock(mutex_);
  streams_.erase(&stream);
}

std::vector<QueueTail> StreamTails::tails() {
  std::lock_guard lock(mutex_);
  std::vector<QueueTail> out;
  out.reserve(streams_.size());
  for (Stream *stream : streams_) out.push_back({stream->native(), stream->queue().tail()});
  return out;
}

} // namespace tb::drivers::cpu
