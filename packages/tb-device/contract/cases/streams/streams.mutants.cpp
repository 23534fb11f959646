// Drivers whose streams break a rule.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>

#include "contract/mutant.h"

namespace tb::contract::streams_mutants {
namespace {

tb_status ok() { return TB_OK; }

TB_MUTANT(default_stream_fresh, "cpu", "stream_default.1", "STR-01", "stream_default gives a new stream each time") {
  api.stream_default = [](tb_driver *self, int32_t device, tb_stream **out) {
    return real().stream_create(self, device, 0, 0, out);
  };
}

TB_MUTANT(streams_run_out, "cpu", "stream_create.4", "STR-02", "more than 256 streams are refused") {
  static std::atomic<int> live{0};
  api.stream_create = [](tb_driver *self, int32_t device, int32_t priority, uint64_t flags, tb_stream **out) {
    if (live >= 256) return real().stream_create(self, device, priority, ~uint64_t(0), out); // refused, with a text
    const tb_status status = real().stream_create(self, device, priority, flags, out);
    if (status == TB_OK) ++live;
    return status;
  };
  api.stream_destroy = [](tb_driver *self, tb_stream *stream) {
    const tb_status status = real().stream_destroy(self, stream);
    if (status == TB_OK) --live;
    return status;
  };
}

TB_MUTANT(priorities_refused, "cpu", "stream_create.1", "STR-03", "priorities out of range are refused, not clamped") {
  api.stream_create = [](tb_driver *self, int32_t device, int32_t priority, uint64_t flags, tb_stream **out) {
    const bool in_range = priority >= -1 && priority <= 0;
    return real().stream_create(self, device, priority, in_range ? flags : ~uint64_t(0), out);
  };
}

TB_MUTANT(streams_wait_for_the_first, "cpu", "stream_create.3", "STR-05",
          "synchronising a stream also waits for the first one that was made") {
  static tb_stream *first = nullptr;
  first = nullptr;
  api.stream_create = [](tb_driver *self, int32_t device, int32_t priority, uint64_t flags, tb_stream **out) {
    const tb_status status = real().stream_create(self, device, priority, flags, out);
    if (status == TB_OK && !first) first = *out;
    return status;
  };
  api.stream_destroy = [](tb_driver *self, tb_stream *stream) {
    if (stream == first) first = nullptr;
    return real().stream_destroy(self, stream);
  };
  api.stream_synchronize = [](tb_driver *self, tb_stream *stream) {
    if (first && first != stream)
      if (const tb_status status = real().stream_synchronize(self, first)) return status;
    return real().stream_synchronize(self, stream);
  };
}

TB_MUTANT(query_blocks, "cpu", "stream_query.2", "STR-06", "stream_query waits for the stream") {
  api.stream_query = [](tb_driver *self, tb_stream *stream) { return real().stream_synchronize(self, stream); };
}

TB_MUTANT(query_always_ready, "cpu", "stream_query.1", "STR-07", "stream_query always says OK") {
  api.stream_query = [](tb_driver *, tb_stream *) { return ok(); };
}

TB_MUTANT(synchronize_returns_early, "cpu", "stream_synchronize.1", "STR-08", "stream_synchronize does not wait") {
  api.stream_synchronize = [](tb_driver *self, tb_stream *stream) {
    const tb_status status = real().stream_query(self, stream);
    return status == TB_NOT_READY ? ok() : status;
  };
}

TB_MUTANT(copies_wait, "cpu", "T5", "STR-09", "mem_copy waits for the stream") {
  api.mem_copy = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                    int32_t kind) {
    const tb_status status = real().mem_copy(self, device, stream, dst, src, size, kind);
    return status == TB_OK ? real().stream_synchronize(self, stream) : status;
  };
}

TB_MUTANT(device_synchronize_own_thread, "cpu", "device_synchronize.1", "STR-10",
          "device_synchronize waits for the default stream only") {
  api.device_synchronize = [](tb_driver *self, int32_t device) {
    tb_stream *stream = nullptr;
    const tb_status status = real().stream_default(self, device, &stream);
    return status == TB_OK ? real().stream_synchronize(self, stream) : status;
  };
}

// A fill of one word that looks at its stream's flag when it runs.
struct DroppableFill {
  std::shared_ptr<std::atomic<bool>> dropped;
  uint32_t *dst;
  uint32_t value;
};

TB_MUTANT(destroy_drops_work, "cpu", "stream_destroy.1", "STR-11", "destroying a stream drops the fills queued on it") {
  static std::mutex mutex;
  static std::map<tb_stream *, std::shared_ptr<std::atomic<bool>>> dropped;
  static constexpr tb_closure closure = {
      sizeof(tb_closure), 0, "mem_set",
      [](void *storage, const tb_closure_context *) {
        const DroppableFill &fill = *static_cast<DroppableFill *>(storage);
        if (!*fill.dropped) *fill.dst = fill.value;
        return ok();
      },
      [](void *storage) { static_cast<DroppableFill *>(storage)->~DroppableFill(); }};
  api.mem_set = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern,
                   uint32_t pattern_size, uint64_t count) -> tb_status {
    if (pattern_size != 4 || count != 1) return real().mem_set(self, device, stream, dst, pattern, pattern_size, count);
    std::lock_guard lock(mutex);
    auto &flag = dropped[stream];
    if (!flag) flag = std::make_shared<std::atomic<bool>>(false);
    void *storage = nullptr;
    if (const tb_status status = real().closure_reserve(self, stream, sizeof(DroppableFill), &storage)) return status;
    new (storage) DroppableFill{flag, static_cast<uint32_t *>(dst), pattern};
    return real().closure_commit(self, stream, storage, &closure);
  };
  api.stream_destroy = [](tb_driver *self, tb_stream *stream) {
    std::lock_guard lock(mutex);
    if (dropped[stream]) *dropped[stream] = true;
    dropped.erase(stream);
    return real().stream_destroy(self, stream);
  };
}

TB_MUTANT(destroy_waits, "cpu", "stream_destroy.2", "STR-12", "stream_destroy waits for the stream's work") {
  api.stream_destroy = [](tb_driver *self, tb_stream *stream) {
    real().stream_synchronize(self, stream);
    return real().stream_destroy(self, stream);
  };
}

TB_MUTANT(default_stream_destroyed, "cpu", "stream_default.2", "STR-13", "destroying the default stream is taken") {
  api.stream_destroy = [](tb_driver *self, tb_stream *stream) {
    const tb_status status = real().stream_destroy(self, stream);
    return status == TB_INVALID_ARGUMENT ? ok() : status;
  };
}

TB_MUTANT(wait_event_ignored, "cpu", "stream_wait_event.1", "STR-20", "stream_wait_event does nothing") {
  api.stream_wait_event = [](tb_driver *, tb_stream *, tb_event *) { return ok(); };
}

TB_MUTANT(wait_event_own_device_only, "cpu", "stream_wait_event.2", "STR-22",
          "events of another device are not waited for") {
  static std::mutex mutex;
  static std::map<const void *, int32_t> devices;
  api.stream_create = [](tb_driver *self, int32_t device, int32_t priority, uint64_t flags, tb_stream **out) {
    const tb_status status = real().stream_create(self, device, priority, flags, out);
    std::lock_guard lock(mutex);
    if (status == TB_OK) devices[*out] = device;
    return status;
  };
  api.event_record = [](tb_driver *self, tb_event *event, tb_stream *stream) {
    std::lock_guard lock(mutex);
    devices[event] = devices[stream];
    return real().event_record(self, event, stream);
  };
  api.stream_wait_event = [](tb_driver *self, tb_stream *stream, tb_event *event) {
    std::lock_guard lock(mutex);
    return devices[stream] == devices[event] ? real().stream_wait_event(self, stream, event) : ok();
  };
}

TB_MUTANT(wait_event_blocks_host, "cpu", "stream_wait_event.4", "STR-24",
          "stream_wait_event holds up the calling thread") {
  api.stream_wait_event = [](tb_driver *self, tb_stream *, tb_event *event) {
    return real().event_synchronize(self, event);
  };
}

TB_MUTANT(destroyed_streams_forgotten, "cpu", "device_synchronize.3", "STR-16",
          "device_synchronize waits for the streams that there are") {
  static std::mutex mutex;
  static std::set<tb_stream *> streams;
  streams.clear();
  api.stream_create = [](tb_driver *self, int32_t device, int32_t priority, uint64_t flags, tb_stream **out) {
    const tb_status status = real().stream_create(self, device, priority, flags, out);
    std::lock_guard lock(mutex);
    if (status == TB_OK) streams.insert(*out);
    return status;
  };
  api.stream_destroy = [](tb_driver *self, tb_stream *stream) {
    std::lock_guard lock(mutex);
    streams.erase(stream);
    return real().stream_destroy(self, stream);
  };
  api.device_synchronize = [](tb_driver *self, int32_t) {
    std::lock_guard lock(mutex);
    for (tb_stream *stream : streams)
      if (const tb_status status = real().stream_synchronize(self, stream)) return status;
    return ok();
  };
}

} // namespace
} // namespace tb::contract::streams_mutants
