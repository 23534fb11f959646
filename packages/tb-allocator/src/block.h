// block.h -- the records of memory, kept apart from it: the host may have no access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tb/component.h"

namespace tb {

class Heap;
struct Pool;
struct Segment;
struct PendingQueue;

enum class BlockState : uint8_t {
  unused,   // the record lies on the free list
  free,     // in a bin
  live,     // in the caller's hands
  pending,  // freed, other streams still use it
  held,     // taken out of its bin by a thread that grows or trims the heap
  unmapped, // addresses without memory, in a growing segment
};

// A stream that uses a block beside the block's own, from record_stream until its event has passed.
struct Use {
  PendingQueue *queue;
  tb_event *event;
  tb_block *block;
  Use *next; // of the block, then of the queue
};

// One piece of driver memory, cut into blocks without gaps.
struct Segment {
  Heap *heap = nullptr;
  Pool *pool = nullptr;
  char *base = nullptr;
  uint64_t size = 0; // of the address range
  tb_block *first = nullptr;
  bool growing = false; // address range with memory mapped as needed
};

// Records of one kind, never given back to the system. Guarded by the heap's lock.
template <class Record> class Records {
public:
  // Throws std::bad_alloc.
  Record *take() {
    if (free_.empty()) refill();
    Record *record = free_.back();
    free_.pop_back();
    return record;
  }
  void give(Record *record) noexcept { free_.push_back(record); } // room was made when the record was

private:
  static constexpr size_t slab = 256;
  [[gnu::noinline]] void refill() {
    auto records = std::make_unique<Record[]>(slab);
    slabs_.reserve(slabs_.size() + 1);
    free_.reserve((slabs_.size() + 1) * slab);
    for (size_t i = 0; i < slab; ++i) free_.push_back(&records[slab - 1 - i]);
    slabs_.push_back(std::move(records));
  }
  std::vector<std::unique_ptr<Record[]>> slabs_;
  std::vector<Record *> free_;
};

} // namespace tb

struct tb_block {
  char *pointer = nullptr;
  uint64_t size = 0;
  uint64_t requested = 0;
  tb::Segment *segment = nullptr;
  tb::Pool *pool = nullptr;
  tb_block *previous = nullptr, *next = nullptr; // neighbours by address; NULL at the ends of the segment
  tb_block *bin_previous = nullptr, *bin_next = nullptr;
  tb::Use *uses = nullptr;
  uint32_t pending = 0; // uses whose event has not passed
  tb::BlockState state = tb::BlockState::unused;
};
