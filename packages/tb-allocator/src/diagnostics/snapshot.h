// snapshot.h -- a heap's segments and history in the forms that others read: torch's memory_viz, RMM's log, a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnostics/history.h"

namespace tb::allocator {

enum class SnapshotState { allocated, pending, inactive };

struct SnapshotBlock {
  uint64_t size, requested;
  SnapshotState state;
};

// Blocks that are mapped without gaps.
struct SnapshotSegment {
  uint64_t address, stream;
  bool large, expandable;
  std::vector<SnapshotBlock> blocks;
};

// The pickle of what torch.cuda.memory._snapshot() returns. device: -1 for the host; expandable: whether the heap maps
// pages.
std::string snapshot_pickle(int32_t device, bool expandable, const std::vector<SnapshotSegment> &segments,
                            const std::vector<HistoryEvent> &events, const History::Clock &clock);
std::string rmm_log_text(const std::vector<HistoryEvent> &events, const History::Clock &clock);
// The format of replay/trace.h.
std::string trace_text(const std::vector<HistoryEvent> &events);

} // namespace tb::allocator
