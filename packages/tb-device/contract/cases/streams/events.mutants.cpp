// Drivers whose events break a rule.
#include <map>
#include <mutex>
#include <vector>

#include "contract/mutant.h"

namespace tb::contract::events_mutants {
namespace {

tb_status ok() { return TB_OK; }

// Remembers which stream an event was recorded on last.
std::mutex records_mutex;
std::map<tb_event *, tb_stream *> records;

tb_status remember(tb_event *event, tb_stream *stream) {
  std::lock_guard lock(records_mutex);
  records[event] = stream;
  return TB_OK;
}
tb_stream *recorded_on(tb_event *event) {
  std::lock_guard lock(records_mutex);
  const auto found = records.find(event);
  return found == records.end() ? nullptr : found->second;
}

TB_MUTANT(fresh_event_not_ready, "cpu", "event_create.1", "EVT-01", "an event that was never recorded is not ready") {
  api.event_record = [](tb_driver *self, tb_event *event, tb_stream *stream) {
    remember(event, stream);
    return real().event_record(self, event, stream);
  };
  api.event_destroy = [](tb_driver *self, tb_event *event) {
    remember(event, nullptr);
    return real().event_destroy(self, event);
  };
  api.event_query = [](tb_driver *self, tb_event *event) -> tb_status {
    return recorded_on(event) ? real().event_query(self, event) : TB_NOT_READY;
  };
}

TB_MUTANT(event_ready_early, "cpu", "event_record.1", "EVT-02", "event_query says OK before the point has passed") {
  api.event_query = [](tb_driver *, tb_event *) { return ok(); };
}

TB_MUTANT(event_covers_later_work, "cpu", "event_record.1", "EVT-03",
          "event_synchronize waits for all of the stream, not for the point") {
  api.event_record = [](tb_driver *self, tb_event *event, tb_stream *stream) {
    remember(event, stream);
    return real().event_record(self, event, stream);
  };
  api.event_synchronize = [](tb_driver *self, tb_event *event) {
    tb_stream *stream = recorded_on(event);
    return stream ? real().stream_synchronize(self, stream) : ok();
  };
}

TB_MUTANT(record_once, "cpu", "event_record.2", "EVT-04", "a second record of an event changes nothing") {
  api.event_record = [](tb_driver *self, tb_event *event, tb_stream *stream) {
    if (recorded_on(event)) return ok();
    remember(event, stream);
    return real().event_record(self, event, stream);
  };
  api.event_destroy = [](tb_driver *self, tb_event *event) {
    remember(event, nullptr);
    return real().event_destroy(self, event);
  };
}

TB_MUTANT(record_moves_waits, "cpu", "event_record.3", "EVT-06",
          "a later record also holds streams that waited before") {
  static std::mutex mutex;
  static std::map<tb_event *, tb_stream *> waits;
  api.stream_wait_event = [](tb_driver *self, tb_stream *stream, tb_event *event) {
    std::lock_guard lock(mutex);
    waits[event] = stream;
    return real().stream_wait_event(self, stream, event);
  };
  api.event_record = [](tb_driver *self, tb_event *event, tb_stream *stream) {
    const tb_status status = real().event_record(self, event, stream);
    std::lock_guard lock(mutex);
    const auto waiting = waits.find(event);
    if (status != TB_OK || waiting == waits.end() || waiting->second == stream) return status;
    return real().stream_wait_event(self, waiting->second, event);
  };
  api.event_destroy = [](tb_driver *self, tb_event *event) {
    std::lock_guard lock(mutex);
    waits.erase(event);
    return real().event_destroy(self, event);
  };
}

TB_MUTANT(event_destroy_waits, "cpu", "event_destroy.1", "EVT-07", "destroying a pending event waits for it") {
  api.event_destroy = [](tb_driver *self, tb_event *event) {
    real().event_synchronize(self, event);
    return real().event_destroy(self, event);
  };
}

TB_MUTANT(event_query_blocks, "cpu", "event_query.2", "EVT-10", "event_query waits for the event") {
  api.event_query = [](tb_driver *self, tb_event *event) { return real().event_synchronize(self, event); };
}

TB_MUTANT(events_leak, "cpu", "event_destroy.1", "EVT-11", "an event leaves a kilobyte behind") {
  api.event_destroy = [](tb_driver *self, tb_event *event) {
    static std::mutex mutex;
    static std::vector<std::vector<char>> lost;
    std::lock_guard lock(mutex);
    lost.emplace_back(1024, 'x');
    return real().event_destroy(self, event);
  };
}

TB_MUTANT(blocking_event_spins, "cpu", "event_synchronize.2", "EVT-12", "a wait for a BLOCKING event spins") {
  api.event_synchronize = [](tb_driver *self, tb_event *event) {
    tb_status status;
    while ((status = real().event_query(self, event)) == TB_NOT_READY) {
    }
    return status;
  };
}

TB_MUTANT(event_failure_swallowed, "cpu", "event_query.1", "EVT-15", "event_query says OK after a failure") {
  api.event_query = [](tb_driver *self, tb_event *event) {
    const tb_status status = real().event_query(self, event);
    return status == TB_NOT_READY ? status : ok();
  };
}

TB_MUTANT(event_ipc_without_ipc, "sim", "event_create.2", "EVT-17", "an event to be shared is made as any other") {
  api.event_create = [](tb_driver *self, int32_t device, uint64_t flags, tb_event **out) {
    return real().event_create(self, device, flags & ~uint64_t(TB_EVENT_IPC), out);
  };
}

} // namespace
} // namespace tb::contract::events_mutants
