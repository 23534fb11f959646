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

// Records of one kind, which have a member `next`; never given back to the system. Guarded by the heap's lock.
template <class Record> class Records {
public:
  // Throws std::bad_alloc.
  Record *take() {
    if (!free_) [[unlikely]]
      refill();
    Record *record = free_;
    free_ = record->next;
    return record;
  }
  void give(Record *record) noexcept {
    record->next = free_;
    free_ = record;
  }

private:
  static constexpr size_t slab = 256;
  [[gnu::noinline]] void refill() {
    slabs_.push_back(std::make_unique<Record[]>(slab));
    for (size_t i = slab; i-- > 0;) give(&slabs_.back()[i]);
  }
  std::vector<std::unique_ptr<Record[]>> slabs_;
  Record *free_ = nullptr;
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
  uint32_t bin = 0;     // while free
  uint32_t pending = 0; // uses whose event has not passed
  tb::BlockState state = tb::BlockState::unused;
};
