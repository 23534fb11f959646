// Clocks.
#include "layers/races/order.h"

#include <algorithm>

namespace tb::layers {

void Clock::set(size_t stream, uint64_t number) {
  if (numbers_.size() <= stream) numbers_.resize(stream + 1);
  numbers_[stream] = std::max(numbers_[stream], number);
}

void Clock::join(const Clock &other) {
  if (numbers_.size() < other.numbers_.size()) numbers_.resize(other.numbers_.size());
  for (size_t at = 0; at < other.numbers_.size(); ++at) numbers_[at] = std::max(numbers_[at], other.numbers_[at]);
}

OrderedStream &Order::stream(const void *handle) {
  auto &found = by_handle_[handle];
  if (!found) {
    found = std::make_unique<OrderedStream>();
    found->index = streams_.size();
    found->handle = handle;
    streams_.push_back(found.get());
  }
  return *found;
}

uint64_t Order::next(OrderedStream &stream) {
  if (stream.host_version != host_version_) {
    stream.done.join(host_);
    stream.host_version = host_version_;
  }
  stream.done.set(stream.index, ++stream.number);
  return stream.number;
}

bool Order::is_before(size_t of, uint64_t number, const OrderedStream *later) const {
  return host_.of(of) >= number || (later && later->done.of(of) >= number);
}

void Order::host_joins(const Clock &clock) {
  host_.join(clock);
  ++host_version_;
}

Clock Order::all(int32_t device) const {
  Clock out;
  for (const OrderedStream *stream : streams_)
    if (device < 0 || stream->device < 0 || stream->device == device) out.join(stream->done);
  return out;
}

} // namespace tb::layers
