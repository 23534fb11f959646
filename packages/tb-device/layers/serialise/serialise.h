// The layer that lets one call at a time into a driver that is not thread-safe (rule T3).
//
// Functions that wait (device_synchronize, stream_synchronize, event_synchronize) let others in meanwhile: they record
// an event where needed and ask for it again and again. Calls that wait for room in a stream's queue (closure_reserve,
// stream_host_call) do not, with one exception: the commit or cancel of a reserve of that stream, without which there
// may never be room, enters beside them. Has no options.
#pragma once

#include <atomic>
#include <unordered_map>
#include <vector>

#include "layers/framework/layer.h"
#include "layers/framework/objects.h"
#include "layers/framework/options.h"

namespace tb::layers {

class Serialise : public LayerOf<Serialise> {
public:
  static constexpr const char *name = "serialise";
  Serialise(const tb_host *host, OptionReader &) : LayerOf(name, host) {}

  template <Slot S, class... A> tb_status around(On<S>, Next next, [[maybe_unused]] A... arguments) {
    std::lock_guard lock(mutex_);
    if constexpr (place_of(S, "stream") >= 0) {
      Inside inside(*this, argument_at<place_of(S, "stream")>(arguments...));
      return next();
    } else {
      return next();
    }
  }
  tb_status around(On<Slot::closure_commit>, Next next, tb_stream *stream, void *, const tb_closure *) {
    return end_reserve(next, stream);
  }
  tb_status around(On<Slot::closure_cancel>, Next next, tb_stream *stream, void *) { return end_reserve(next, stream); }
  tb_status around(On<Slot::stream_create>, Next next, int32_t device, int32_t priority, uint64_t flags,
                   tb_stream **out);
  tb_status around(On<Slot::stream_default>, Next next, int32_t device, tb_stream **out);
  tb_status around(On<Slot::stream_wrap>, Next next, int32_t device, uint64_t native, tb_stream **out);
  tb_status around(On<Slot::stream_destroy>, Next next, tb_stream *stream);
  tb_status around(On<Slot::stream_synchronize>, Next next, tb_stream *stream);
  tb_status around(On<Slot::event_synchronize>, Next next, tb_event *event);
  tb_status around(On<Slot::device_synchronize>, Next next, int32_t device);
  // Calls of tb.kernels would enter the driver beside others.
  tb_status around(On<Slot::get_extension>, Next next, const char *name, uint32_t version, void *table, uint32_t size);
  tb_status around(On<Slot::close>, Next next);

private:
  // A call of a stream that may be waiting for room in its queue. With the lock held.
  struct Inside {
    Inside(Serialise &layer, tb_stream *stream) : layer(layer) {
      ++layer.entered_;
      layer.inside_ = stream;
    }
    ~Inside() { layer.inside_ = nullptr; }
    Serialise &layer;
  };
  tb_status end_reserve(Next next, tb_stream *stream);
  // An event after what the stream has queued, or a failure. With the lock held.
  tb_status mark(int32_t device, tb_stream *stream, tb_event **out);
  // Lets others call until the event's point has passed.
  tb_status wait(tb_event *event);
  tb_status wait_and_destroy(const std::vector<tb_event *> &events, tb_status status);
  int32_t device_of(tb_stream *stream) const;

  std::mutex mutex_;
  std::mutex beside_;                // of calls that enter although another one holds the lock
  std::atomic<uint64_t> entered_{0}; // calls of streams so far
  std::atomic<tb_stream *> inside_{nullptr};
  std::unordered_map<tb_stream *, int32_t> streams_;          // given through the layer, and their devices
  std::unordered_map<int32_t, std::vector<tb_event *>> ends_; // of destroyed streams: their last work
  std::unordered_map<int32_t, tb_status> unreported_;         // failures of such work
};

} // namespace tb::layers
