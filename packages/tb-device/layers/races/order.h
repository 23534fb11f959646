// What comes before what: a vector clock for each stream, for the host, and for each event.
//
// Work has a number on its stream. A stream's clock says, for every stream, up to which number its work is done before
// whatever the stream is given next. The host's clock says what the host has seen done. The caller holds the layer's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tb/driver.h"

namespace tb::layers {

class Clock {
public:
  uint64_t of(size_t stream) const { return stream < numbers_.size() ? numbers_[stream] : 0; }
  void set(size_t stream, uint64_t number);
  void join(const Clock &other);

private:
  std::vector<uint64_t> numbers_;
};

struct RecordedGraph; // shadow.h

struct OrderedStream {
  size_t index = 0;
  const void *handle = nullptr;
  int32_t device = -1; // -1: not known
  bool standard = false;
  Clock done; // includes its own last number
  uint64_t number = 0, host_version = 0;
  std::shared_ptr<RecordedGraph> capture; // that it takes part in
};

class Order {
public:
  OrderedStream &stream(const void *handle);
  template <class Body> void each(const Body &body) {
    for (OrderedStream *stream : streams_) body(*stream);
  }
  const OrderedStream &at(size_t index) const { return *streams_[index]; }

  // The number of the next work of the stream, which comes after all that the host has seen done.
  uint64_t next(OrderedStream &stream);
  bool is_before(size_t of, uint64_t number, const OrderedStream *later) const; // NULL: the host
  bool host_has_seen(size_t of, uint64_t number) const { return host_.of(of) >= number; }
  // What the host has seen done from now on.
  void host_joins(const Clock &clock);
  const Clock &host() const { return host_; }
  // Everything given to the device's streams until now, -1: to all.
  Clock all(int32_t device) const;

private:
  std::unordered_map<const void *, std::unique_ptr<OrderedStream>> by_handle_;
  std::vector<OrderedStream *> streams_;
  Clock host_;
  uint64_t host_version_ = 1;
};

} // namespace tb::layers
