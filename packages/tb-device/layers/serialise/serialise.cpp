// Serialises calls, and lets others in during waits.
#include "layers/serialise/serialise.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tb/kernels.h"

namespace tb::layers {

int32_t Serialise::device_of(tb_stream *stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? -1 : found->second;
}

tb_status Serialise::mark(int32_t device, tb_stream *stream, tb_event **out) {
  tb_event *event = nullptr;
  if (const tb_status status = inner.event_create(inner_self, device, 0, &event)) return status;
  if (const tb_status status = inner.event_record(inner_self, event, stream)) {
    (void)inner.event_destroy(inner_self, event);
    return status;
  }
  *out = event;
  return TB_OK;
}

tb_status Serialise::wait(tb_event *event) {
  // Short work is worth no sleep; long work is asked after ever more seldom, so that waiting costs no processor.
  constexpr int eager = 20;
  constexpr std::chrono::microseconds longest{2000};
  std::chrono::microseconds pause{50};
  for (int round = 0;; ++round) {
    {
      std::lock_guard lock(mutex_);
      const tb_status status = inner.event_query(inner_self, event);
      if (status != TB_NOT_READY) return status;
    }
    if (round < eager) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, longest);
  }
}

tb_status Serialise::wait_and_destroy(const std::vector<tb_event *> &events, tb_status status) {
  for (tb_event *event : events) {
    const tb_status one = wait(event);
    if (status == TB_OK) status = one;
  }
  std::lock_guard lock(mutex_);
  for (tb_event *event : events) (void)inner.event_destroy(inner_self, event);
  return status;
}

tb_status Serialise::end_reserve(Next next, tb_stream *stream) {
  using std::chrono::steady_clock;
  // Longer than a call that does not wait takes, and short beside the work of a full queue.
  constexpr std::chrono::milliseconds patience{5};
  uint64_t seen = 0;
  for (auto since = steady_clock::now();;) {
    if (std::unique_lock lock(mutex_, std::try_to_lock); lock) return next();
    const uint64_t entered = entered_;
    if (inside_ != stream || entered != seen) {
      seen = entered;
      since = steady_clock::now();
    } else if (steady_clock::now() - since > patience) {
      std::lock_guard lock(beside_);
      return next();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

tb_status Serialise::around(On<Slot::stream_create>, Next next, int32_t device, int32_t, uint64_t, tb_stream **out) {
  std::lock_guard lock(mutex_);
  const tb_status status = next();
  if (status == TB_OK) streams_[*out] = device;
  return status;
}

tb_status Serialise::around(On<Slot::stream_default>, Next next, int32_t device, tb_stream **out) {
  std::lock_guard lock(mutex_);
  const tb_status status = next();
  if (status == TB_OK) streams_[*out] = device;
  return status;
}

tb_status Serialise::around(On<Slot::stream_wrap>, Next next, int32_t device, uint64_t, tb_stream **out) {
  std::lock_guard lock(mutex_);
  const tb_status status = next();
  if (status == TB_OK) streams_[*out] = device;
  return status;
}

// Its queued work still completes, and device_synchronize waits for that too.
tb_status Serialise::around(On<Slot::stream_destroy>, Next next, tb_stream *stream) {
  std::lock_guard lock(mutex_);
  const int32_t device = device_of(stream);
  if (device < 0) return next();
  auto &ends = ends_[device];
  std::erase_if(ends, [&](tb_event *event) {
    const tb_status done = inner.event_query(inner_self, event);
    if (done == TB_NOT_READY) return false;
    if (done != TB_OK) unreported_[device] = done; // is reported once: kept for device_synchronize
    (void)inner.event_destroy(inner_self, event);
    return true;
  });
  tb_event *end = nullptr;
  const bool marked = mark(device, stream, &end) == TB_OK;
  const tb_status status = next();
  if (!tb_is_refusal(status)) streams_.erase(stream);
  if (marked) ends.push_back(end);
  return status;
}

tb_status Serialise::around(On<Slot::stream_synchronize>, Next next, tb_stream *stream) {
  tb_event *event = nullptr;
  {
    std::lock_guard lock(mutex_);
    const tb_status asked = inner.stream_query(inner_self, stream);
    if (asked != TB_NOT_READY) return asked == TB_OK ? next() : asked;
    const int32_t device = device_of(stream);
    if (const tb_status status = mark(device < 0 ? 0 : device, stream, &event)) return status;
  }
  return wait_and_destroy({event}, TB_OK);
}

tb_status Serialise::around(On<Slot::event_synchronize>, Next next, tb_event *event) {
  (void)next;
  return wait(event);
}

tb_status Serialise::around(On<Slot::device_synchronize>, Next next, int32_t device) {
  std::vector<tb_event *> events;
  tb_status status = TB_OK;
  {
    std::lock_guard lock(mutex_);
    tb_stream *standard = nullptr;
    // A device that there is not, or a lost one: the driver's own answer.
    if (inner.stream_default(inner_self, device, &standard) != TB_OK) return next();
    streams_[standard] = device;
    if (const auto unreported = unreported_.find(device); unreported != unreported_.end()) {
      status = fail(unreported->second, "work of a destroyed stream of device %d failed", device);
      unreported_.erase(unreported);
    }
    for (const auto &[stream, of] : streams_) {
      if (of != device) continue;
      tb_event *event = nullptr;
      if (const tb_status one = mark(device, stream, &event))
        status = one;
      else
        events.push_back(event);
    }
    auto &ends = ends_[device];
    events.insert(events.end(), ends.begin(), ends.end());
    ends.clear();
  }
  return wait_and_destroy(events, status);
}

tb_status Serialise::around(On<Slot::get_extension>, Next next, const char *name, uint32_t version, void *, uint32_t) {
  std::lock_guard lock(mutex_);
  if (!name || std::strcmp(name, TB_KERNELS_EXTENSION) != 0) return next();
  tb_kernels offered{};
  offered.struct_size = sizeof offered;
  if (const tb_status status = inner.get_extension(inner_self, name, version, &offered, sizeof offered)) return status;
  return fail(TB_UNSUPPORTED, "calls of the driver's kernels would enter it beside others, which the layer serialise "
                              "cannot prevent. Leave it out of TB_LAYERS to use them");
}

tb_status Serialise::around(On<Slot::close>, Next next) {
  std::lock_guard lock(mutex_);
  for (auto &[device, ends] : ends_) {
    for (tb_event *event : ends) (void)inner.event_destroy(inner_self, event);
    ends.clear();
  }
  return next();
}

} // namespace tb::layers
