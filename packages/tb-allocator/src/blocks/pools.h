// pools.h -- what a heap keeps for each stream: its free blocks, its events, and how far it has come.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "blocks/bins.h"
#include "blocks/block.h"

namespace tb::allocator {

struct Timeline;

// The free blocks of one stream and one of its two kinds.
struct Pool {
  Bins bins;
  tb_stream *stream = nullptr;
  Timeline *timeline = nullptr;
  bool large = false;
  uint64_t least_rest = unit;      // a smaller rest of a cut stays with the block
  uint64_t long_rest = UINT64_MAX; // what would leave so much of a block may have a better place
};

// The uses of one stream, in the order of their events, and that stream's spare events.
struct PendingQueue {
  tb_stream *stream = nullptr;
  int32_t device = -1;  // where its events are made
  bool settled = false; // an event was recorded, so `device` is right
  Use *head = nullptr, *tail = nullptr;
  std::vector<tb_event *> events;
};

// How far a stream has come, in epochs: an epoch ends when an event is recorded, which happens only where pages are
// about to change hands. A free block is out of use once the epoch of its stamp has passed.
struct Timeline {
  struct Mark {
    uint64_t epoch;
    tb_event *event;
  };
  struct Retired { // a stale block, by the stamp that it had
    tb_block *block;
    uint64_t stamp;
  };
  PendingQueue *queue = nullptr; // of the same stream
  uint64_t epoch = 1;            // of what is freed now
  uint64_t passed = 0;
  std::deque<Mark> marks;
  std::vector<Retired> retired;
};

struct StreamPools {
  Pool small, large;
  Timeline timeline;
};

} // namespace tb::allocator
