// inspection.cpp -- snapshots and the history of a heap, for people and tools.
#include <mutex>

#include "diagnostics/snapshot.h"
#include "heap/heap.h"

namespace tb::allocator {
namespace {

bool is_mapped(const tb_block *block) { return block && block->state < BlockState::shared; }

SnapshotBlock describe(const tb_block &block) {
  bool allocated = is_allocated(&block), pending = block.state == BlockState::pending;
  SnapshotState state = allocated ? SnapshotState::allocated
                        : pending ? SnapshotState::pending
                                  : SnapshotState::inactive;
  return {block.size, allocated || pending ? block.requested : 0, state};
}

SnapshotSegment describe(const Segment &segment, const tb_block *first) {
  return {reinterpret_cast<uint64_t>(first->pointer),
          reinterpret_cast<uint64_t>(segment.pool->stream),
          segment.pool->large,
          segment.growing,
          {}};
}

} // namespace

History::Clock Heap::read_history(std::vector<HistoryEvent> *events) {
  FlushedLock lock(caches_);
  *events = store_.history.events();
  for (const ThreadCache *cache : caches_.all())
    if (const HistoryPage *page = cache->page)
      events->insert(events->end(), page->events.begin(), page->events.begin() + static_cast<ptrdiff_t>(page->used));
  store_.history.arrange(events);
  return History::Clock(store_.history);
}

std::string Heap::snapshot() {
  std::vector<SnapshotSegment> segments;
  std::vector<HistoryEvent> events;
  {
    std::lock_guard growth(growth_); // so that ranges stay as they are
    FlushedLock lock(caches_);
    for (auto &[base, segment] : store_.segments) {
      if (segment.placed) {
        std::vector<tb_block> row = segment.placed->row();
        segments.push_back(describe(segment, row.data()));
        for (const tb_block &block : row) segments.back().blocks.push_back(describe(block));
        continue;
      }
      for (tb_block *block = segment.first; block; block = block->next) {
        if (!is_mapped(block)) continue;
        if (!is_mapped(block->previous)) segments.push_back(describe(segment, block));
        segments.back().blocks.push_back(describe(*block));
      }
    }
  }
  History::Clock clock = read_history(&events);
  return snapshot_pickle(source_->device(), store_.policy.growing, segments, events, clock);
}

std::string Heap::rmm_log() {
  std::vector<HistoryEvent> events;
  History::Clock clock = read_history(&events);
  return rmm_log_text(events, clock);
}

std::string Heap::trace() {
  std::vector<HistoryEvent> events;
  read_history(&events);
  return trace_text(events);
}

void Heap::resize_history(uint64_t events) {
  History fresh;
  fresh.resize(events);
  FlushedLock lock(caches_);
  std::swap(store_.history, fresh);
  for (ThreadCache *cache : caches_.all()) cache->page = store_.history.take_page();
}

} // namespace tb::allocator
