// What a program knows about the progress of its streams, for the layer validate.
//
// Each use of a block on a stream has a position. A synchronise or a query that says "done" makes a position known to
// have passed, also through events and the waits of other streams. The driver is not called here.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tb/driver.h"

namespace tb::layers {

class StreamProgress;

// Positions of streams that come before one point of a stream.
using Joined = std::vector<std::pair<std::shared_ptr<StreamProgress>, uint64_t>>;

class StreamProgress {
public:
  StreamProgress(tb_stream *stream, int32_t device, uint32_t serial) : stream(stream), device(device), serial(serial) {}
  tb_stream *const stream;
  const int32_t device;
  const uint32_t serial; // names it in uses of blocks; never given twice

  // Before the enqueueing call.
  uint64_t next_position() { return enqueued_.fetch_add(1, std::memory_order_relaxed) + 1; }
  uint64_t enqueued() const { return enqueued_.load(std::memory_order_relaxed); }
  bool passed(uint64_t position) const { return done_.load(std::memory_order_acquire) >= position; }
  void mark(uint64_t position);
  // The points for which the stream waited so far.
  std::shared_ptr<const Joined> joined() const;
  void join(const Joined &others);
  void forget_joined(); // two streams that waited for each other would keep each other alive

  std::atomic<uint32_t> storages{0};        // closure storages between reserve and commit
  std::atomic<tb_status> unreported{TB_OK}; // a failure of queued work that only the layer's own query received

private:
  std::atomic<uint64_t> enqueued_{0}, done_{0};
  mutable std::mutex mutex_;
  std::shared_ptr<const Joined> joined_;
};

// What a record holds.
struct EventPoint {
  std::shared_ptr<StreamProgress> stream;
  uint64_t position;
  std::shared_ptr<const Joined> joined;
};

EventPoint point_of(const std::shared_ptr<StreamProgress> &stream);
// The point has passed.
void mark(const EventPoint &point);
// Later work of `stream` comes after the point.
void join(StreamProgress &stream, const EventPoint &point);

// All streams of a driver by serial.
class Streams {
public:
  Streams() = default;
  Streams(const Streams &) = delete;
  ~Streams() {
    for (const auto &[serial, stream] : by_serial_) stream->forget_joined();
  }
  std::shared_ptr<StreamProgress> add(tb_stream *stream, int32_t device);
  void remove(uint32_t serial);
  // NULL when it was destroyed.
  std::shared_ptr<StreamProgress> find(uint32_t serial) const;
  std::vector<EventPoint> points(int32_t device) const; // of all its streams, now

private:
  mutable std::mutex mutex_;
  uint32_t next_ = 1;
  std::map<uint32_t, std::shared_ptr<StreamProgress>> by_serial_;
};

// The last positions at which streams used a block. More streams than fit make the block's use unknown.
class BlockUse {
public:
  BlockUse() = default;
  BlockUse(const BlockUse &) = delete;
  void note(uint32_t serial, uint64_t position);
  void unknown() { unknown_.store(true, std::memory_order_relaxed); }
  bool is_used() const { return entries_[0].load(std::memory_order_relaxed) != 0; }
  bool is_known() const { return !unknown_.load(std::memory_order_relaxed); }
  // Calls body(serial, position) for each stream.
  template <class Body> void each(Body &&body) const {
    for (const auto &entry : entries_)
      if (const uint64_t value = entry.load(std::memory_order_relaxed))
        body(static_cast<uint32_t>(value >> position_bits), value & position_mask);
  }

private:
  static constexpr int position_bits = 40; // 10^12 uses; the serial has the other 24
  static constexpr uint64_t position_mask = (uint64_t{1} << position_bits) - 1;
  std::atomic<uint64_t> entries_[4]{};
  std::atomic<bool> unknown_{false};
};

} // namespace tb::layers
