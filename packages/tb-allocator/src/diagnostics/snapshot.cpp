// snapshot.cpp -- segments, blocks and history as torch's memory_viz reads them, and the history as text.
#include <cinttypes>
#include <unordered_map>

#include "diagnostics/pickle.h"
#include "heap/heap_lock.h"

namespace tb::allocator {
namespace {

const char *name_of(Action action, bool pages) {
  if (action == Action::map) return pages ? "segment_map" : "segment_alloc";
  if (action == Action::unmap) return pages ? "segment_unmap" : "segment_free";
  if (action == Action::out_of_memory) return "oom";
  return action == Action::allocate ? "alloc" : action == Action::free_requested ? "free_requested" : "free_completed";
}

uint64_t number(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

bool is_mapped(const tb_block *block) { return block && block->state < BlockState::lent; }

void write_block(Pickle &out, const tb_block &block) {
  bool live = is_live(&block), pending = block.state == BlockState::pending;
  out.begin_dict();
  out.key("address", number(block.pointer));
  out.key("size", block.size);
  out.key("requested_size", live || pending ? block.requested : 0);
  out.key("state", live ? "active_allocated" : pending ? "active_awaiting_free" : "inactive");
  out.text("frames");
  out.empty_list();
  out.end_dict();
}

// Blocks [first, end), which are mapped without gaps.
void write_segment(Pickle &out, int32_t device, const tb_block *first, const tb_block *end) {
  uint64_t total = 0, allocated = 0, active = 0, requested = 0;
  for (const tb_block *block = first; block != end; block = block->next) {
    total += block->size;
    bool live = is_live(block);
    if (live) allocated += block->size;
    if (live || block->state == BlockState::pending) {
      active += block->size;
      requested += block->requested;
    }
  }
  const Segment &segment = *first->segment;
  out.begin_dict();
  out.key("device", static_cast<uint64_t>(device < 0 ? 0 : device));
  out.key("address", number(first->pointer));
  out.key("total_size", total);
  out.key("allocated_size", allocated);
  out.key("active_size", active);
  out.key("requested_size", requested);
  out.key("stream", number(segment.pool->stream));
  out.key("segment_type", segment.pool->large ? "large" : "small");
  out.text("segment_pool_id");
  out.pair(0, 0);
  out.flag("is_expandable", segment.growing);
  out.text("frames");
  out.empty_list();
  out.text("blocks");
  out.begin_list();
  for (const tb_block *block = first; block != end; block = block->next) write_block(out, *block);
  out.end_list();
  out.end_dict();
}

void write_event(Pickle &out, const char *action, const HistoryEvent &event, int64_t time) {
  out.begin_dict();
  out.key("action", action);
  out.key(event.action == Action::out_of_memory ? "device_free" : "addr",
          event.action == Action::out_of_memory ? event.free_at_driver : event.address);
  out.key("size", event.size);
  out.key("stream", event.stream);
  out.key("time_us", static_cast<uint64_t>(time));
  out.text("frames");
  out.empty_list();
  out.end_dict();
}

} // namespace

History::Clock Heap::read_history(std::vector<HistoryEvent> *events) {
  Claim claim(*this);
  *events = history_.events();
  for (const ThreadCache *cache : caches_)
    if (const HistoryPage *page = cache->page)
      events->insert(events->end(), page->events.begin(), page->events.begin() + static_cast<ptrdiff_t>(page->used));
  history_.arrange(events);
  return History::Clock(history_);
}

std::string Heap::snapshot() {
  Pickle out;
  std::vector<HistoryEvent> events;
  out.begin_dict();
  out.text("segments");
  out.begin_list();
  {
    std::lock_guard growth(growth_); // keeps ranges as they are
    Claim claim(*this);
    for (auto &[base, segment] : segments_)
      for (tb_block *first = segment.first; first;) {
        tb_block *end = first;
        while (is_mapped(end)) end = end->next;
        if (segment.program) {
          std::vector<tb_block> row = planned_row(segment);
          write_segment(out, source_->device(), row.data(), nullptr);
        } else if (end != first) {
          write_segment(out, source_->device(), first, end);
        }
        first = end ? end->next : nullptr;
      }
  }
  History::Clock clock = read_history(&events);
  out.end_list();
  out.text("device_traces");
  out.begin_list();
  for (int32_t other = 0; other < source_->device(); ++other) out.empty_list(); // one list a device, by number
  out.begin_list();
  out.reserve(events.size() * 72 + (1 << 20));
  for (const HistoryEvent &event : events) {
    int64_t time = clock.microseconds(event.ticks);
    if (event.action == Action::free) write_event(out, "free_requested", event, time);
    write_event(out, name_of(event.action, policy_.growing), event, time);
  }
  out.end_list();
  out.end_list();
  out.text("allocator_settings");
  out.begin_dict();
  out.flag("expandable_segments", policy_.growing);
  out.end_dict();
  out.end_dict();
  return out.finish();
}

std::string Heap::rmm_log() {
  std::vector<HistoryEvent> events;
  History::Clock clock = read_history(&events);
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

std::string Heap::trace() {
  std::vector<HistoryEvent> events;
  read_history(&events);
  std::unordered_map<uint64_t, uint64_t> live, streams;
  uint64_t next = 0;
  std::string out;
  for (const HistoryEvent &event : events) {
    if (event.action == Action::allocate) {
      uint64_t stream = streams.emplace(event.stream, streams.size()).first->second;
      live[event.address] = next;
      out += "a " + std::to_string(next++) + " " + std::to_string(event.size) + " " + std::to_string(stream) + "\n";
    } else if (event.action == Action::free || event.action == Action::free_requested) {
      auto found = live.find(event.address);
      if (found == live.end()) continue; // allocated before the history begins
      out += "f " + std::to_string(found->second) + "\n";
      live.erase(found);
    }
  }
  return out;
}

void Heap::resize_history(uint64_t events) {
  History fresh;
  fresh.resize(events);
  Claim claim(*this);
  std::swap(history_, fresh);
  for (ThreadCache *cache : caches_) cache->page = history_.take_page();
}

} // namespace tb::allocator
