// serialise.h -- the layer that lets one call at a time into a driver that cannot take several (rule T3).
//
// Functions that wait (device_synchronize, stream_synchronize, event_synchronize) let others in meanwhile: they record
// an event where needed and ask for it again and again. Calls that wait for room in a queue (closure_reserve,
// stream_host_call) do not. Has no options.
#pragma once

#include <unordered_map>
#include <vector>

#include "layer.h"
#include "options.h"

namespace tb::layers {

class Serialise : public LayerOf<Serialise> {
public:
  static constexpr const char *name = "serialise";
  Serialise(const tb_host *host, OptionReader &) : LayerOf(name, host) {}

  template <Slot S, class... A> tb_status around(On<S>, Next next, A...) {
    std::lock_guard lock(mutex_);
    return next();
  }
  tb_status around(On<Slot::stream_create>, Next next, int32_t device, int32_t priority, uint64_t flags,
                   tb_stream **out);
  tb_status around(On<Slot::stream_default>, Next next, int32_t device, tb_stream **out);
  tb_status around(On<Slot::stream_wrap>, Next next, int32_t device, uint64_t native, tb_stream **out);
  tb_status around(On<Slot::stream_destroy>, Next next, tb_stream *stream);
  tb_status around(On<Slot::stream_synchronize>, Next next, tb_stream *stream);
  tb_status around(On<Slot::event_synchronize>, Next next, tb_event *event);
  tb_status around(On<Slot::device_synchronize>, Next next, int32_t device);
  tb_status around(On<Slot::close>, Next next);

private:
  // An event after what the stream has queued, or a failure. With the lock held.
  tb_status mark(int32_t device, tb_stream *stream, tb_event **out);
  // Lets others call until the event's point has passed.
  tb_status wait(tb_event *event);
  tb_status wait_and_destroy(const std::vector<tb_event *> &events, tb_status status);
  int32_t device_of(tb_stream *stream) const;

  std::mutex mutex_;
  std::unordered_map<tb_stream *, int32_t> streams_;          // given through the layer, and their devices
  std::unordered_map<int32_t, std::vector<tb_event *>> ends_; // of destroyed streams: their last work
  std::unordered_map<int32_t, tb_status> untold_;             // failures of such work
};

} // namespace tb::layers
