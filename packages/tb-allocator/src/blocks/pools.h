// pools.h -- what a heap keeps for each stream: its free blocks, its events, and the epoch that it has reached.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "blocks/bins.h"
#include "blocks/block.h"

namespace tb::allocator {

struct Timeline;

// The free blocks of one stream, of one of two kinds: small and large.
struct Pool {
  Bins bins;
  tb_stream *stream = nullptr;
  Timeline *timeline = nullptr;
  bool large = false;
  uint64_t min_split_remainder = unit;   // a remainder smaller than this is not split off
  uint64_t large_remainder = UINT64_MAX; // a request that leaves this much of a block looks for a better fit
};

// The uses of one stream, in the order of their events, and that stream's spare events.
struct PendingQueue {
  tb_stream *stream = nullptr;
  int32_t device = -1;  // where its events are created
  bool settled = false; // an event was recorded, so `device` is right
  Use *head = nullptr, *tail = nullptr;
  std::vector<tb_event *> events;
};

// The progress of a stream, in epochs. An epoch ends when an event is recorded, which happens only where pages are
// about to move to another stream. A free block is out of use once the epoch of its stamp has passed.
struct Timeline {
  struct Mark {
    uint64_t epoch;
    tb_event *event;
  };
  struct Retired { // a stale block, with the stamp that it had
    tb_block *block;
    uint64_t stamp;
  };
  PendingQueue *queue = nullptr; // of the same stream
  uint64_t epoch = 1;            // of blocks that are freed now
  uint64_t passed = 0;
  std::deque<Mark> marks;
  std::vector<Retired> retired;
};

struct StreamPools {
  Pool small, large;
  Timeline timeline;
};

} // namespace tb::allocator
