// event_object.h -- tb_stream.Event: a point in a stream, taken from the pool at its first record.
#pragma once

#include "stream_object.h"

namespace tb {

class Event {
public:
  explicit Event(uint64_t flags) : flags_(flags) {}
  Event(int32_t device, const tb_ipc_handle &handle); // of another process
  ~Event();
  Event(const Event &) = delete;

  void record(const Stream &stream);
  void wait(const Stream &stream) const;
  bool query() const;
  void synchronize() const;
  double elapsed_time(const Event &end) const;
  tb_ipc_handle ipc_handle();
  int32_t device() const { return device_; } // -1: not recorded yet
  uint64_t flags() const { return flags_; }
  tb_event *handle() const { return event_; } // NULL: neither recorded nor exported yet

private:
  uint64_t flags_;
  int32_t device_ = -1;
  tb_event *event_ = nullptr;
};

} // namespace tb
