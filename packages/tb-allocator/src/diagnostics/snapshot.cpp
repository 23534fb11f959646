// snapshot.cpp -- writes segments, blocks and history.
#include "diagnostics/snapshot.h"

#include <cinttypes>
#include <cstdio>
#include <unordered_map>

#include "diagnostics/pickle.h"

namespace tb::allocator {
namespace {

const char *name_of(Action action, bool pages) {
  if (action == Action::map) return pages ? "segment_map" : "segment_alloc";
  if (action == Action::unmap) return pages ? "segment_unmap" : "segment_free";
  if (action == Action::out_of_memory) return "oom";
  return action == Action::allocate ? "alloc" : action == Action::free_requested ? "free_requested" : "free_completed";
}

void write_block(Pickle &out, uint64_t address, const SnapshotBlock &block) {
  bool allocated = block.state == SnapshotState::allocated, pending = block.state == SnapshotState::pending;
  out.begin_dict();
  out.key("address", address);
  out.key("size", block.size);
  out.key("requested_size", block.requested);
  out.key("state", allocated ? "active_allocated" : pending ? "active_awaiting_free" : "inactive");
  out.text("frames");
  out.empty_list();
  out.end_dict();
}

void write_segment(Pickle &out, int32_t device, const SnapshotSegment &segment) {
  uint64_t total = 0, allocated = 0, active = 0, requested = 0;
  for (const SnapshotBlock &block : segment.blocks) {
    total += block.size;
    if (block.state == SnapshotState::allocated) allocated += block.size;
    if (block.state != SnapshotState::inactive) active += block.size;
    requested += block.requested;
  }
  out.begin_dict();
  out.key("device", static_cast<uint64_t>(device < 0 ? 0 : device));
  out.key("address", segment.address);
  out.key("total_size", total);
  out.key("allocated_size", allocated);
  out.key("active_size", active);
  out.key("requested_size", requested);
  out.key("stream", segment.stream);
  out.key("segment_type", segment.large ? "large" : "small");
  out.text("segment_pool_id");
  out.pair(0, 0);
  out.flag("is_expandable", segment.expandable);
  out.text("frames");
  out.empty_list();
  out.text("blocks");
  out.begin_list();
  uint64_t address = segment.address;
  for (const SnapshotBlock &block : segment.blocks) {
    write_block(out, address, block);
    address += block.size;
  }
  out.end_list();
  out.end_dict();
}

void write_event(Pickle &out, const char *action, const HistoryEvent &event, int64_t time) {
  out.begin_dict();
  out.key("action", action);
  out.key(event.action == Action::out_of_memory ? "device_free" : "addr",
          event.action == Action::out_of_memory ? event.place : event.address);
  out.key("size", event.size);
  out.key("stream", event.stream);
  out.key("time_us", static_cast<uint64_t>(time));
  if (event.place && event.action != Action::out_of_memory) out.key("place", event.place);
  out.text("frames");
  out.empty_list();
  out.end_dict();
}

} // namespace

std::string snapshot_pickle(int32_t device, bool expandable, const std::vector<SnapshotSegment> &segments,
                            const std::vector<HistoryEvent> &events, const History::Clock &clock) {
  Pickle out;
  out.begin_dict();
  out.text("segments");
  out.begin_list();
  for (const SnapshotSegment &segment : segments) write_segment(out, device, segment);
  out.end_list();
  out.text("device_traces");
  out.begin_list();
  for (int32_t other = 0; other < device; ++other) out.empty_list(); // one list for each device, by number
  out.begin_list();
  out.reserve(events.size() * 72 + (1 << 20));
  for (const HistoryEvent &event : events) {
    int64_t time = clock.microseconds(event.ticks);
    if (event.action == Action::free) write_event(out, "free_requested", event, time);
    write_event(out, name_of(event.action, expandable), event, time);
  }
  out.end_list();
  out.end_list();
  out.text("allocator_settings");
  out.begin_dict();
  out.flag("expandable_segments", expandable);
  out.end_dict();
  out.end_dict();
  return out.finish();
}

std::string rmm_log_text(const std::vector<HistoryEvent> &events, const History::Clock &clock) {
  std::string out = "Thread,Time,Action,Pointer,Size,Stream\n";
  char line[160];
  for (const HistoryEvent &event : events) {
    const char *action = event.action == Action::allocate                                         ? "allocate"
                         : event.action == Action::free || event.action == Action::free_requested ? "free"
                         : event.action == Action::out_of_memory                                  ? "allocate failure"
                                                                                                  : nullptr;
    if (!action) continue;
    int64_t time = clock.microseconds(event.ticks), day = 86400 * int64_t{1000000};
    int64_t now = time % day;
    int size = snprintf(line, sizeof line, "%u,%02d:%02d:%02d.%06d,%s,0x%" PRIx64 ",%" PRIu64 ",0x%" PRIx64 "\n",
                        event.thread, static_cast<int>(now / 3600000000), static_cast<int>(now / 60000000 % 60),
                        static_cast<int>(now / 1000000 % 60), static_cast<int>(now % 1000000), action, event.address,
                        event.size, event.stream);
    out.append(line, static_cast<size_t>(size));
  }
  return out;
}

std::string trace_text(const std::vector<HistoryEvent> &events) {
  std::unordered_map<uint64_t, uint64_t> ids, streams;
  uint64_t next = 0;
  std::string out;
  for (const HistoryEvent &event : events) {
    if (event.action == Action::allocate) {
      uint64_t stream = streams.emplace(event.stream, streams.size()).first->second;
      ids[event.address] = next;
      out += "a " + std::to_string(next++) + " " + std::to_string(event.size) + " " + std::to_string(stream) + "\n";
    } else if (event.action == Action::free || event.action == Action::free_requested) {
      auto found = ids.find(event.address);
      if (found == ids.end()) continue; // allocated before the history begins
      out += "f " + std::to_string(found->second) + "\n";
      ids.erase(found);
    }
  }
  return out;
}

} // namespace tb::allocator
