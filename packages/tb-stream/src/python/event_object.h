// event_object.h -- tb_stream.Event: a point in a stream. It takes a pooled event at its first record or export.
#pragma once

#include <nanobind/nanobind.h>

#include "python/stream_handle.h"

namespace tb::stream {

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
  int32_t device() const { return device_; } // -1 before the first record
  uint64_t flags() const { return flags_; }
  tb_event *handle() const { return event_; } // NULL before the first record or export

private:
  uint64_t flags_;
  int32_t device_ = -1;
  tb_event *event_ = nullptr;
};

void bind_event(nanobind::module_ &m);

} // namespace tb::stream
