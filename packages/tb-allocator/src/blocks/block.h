// block.h -- the records of memory, kept apart from it: the host may have no access.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tb/component.h"

namespace tb::allocator {

class Heap;
class Program;
struct Pool;
struct Segment;
struct PendingQueue;

enum class BlockState : uint8_t {
  unused,   // the record lies on the free list
  free,     // in a bin
  live,     // in the caller's hands
  pending,  // freed, other streams still use it
  planned,  // live at a place of a plan; or all of the memory of a plan
  held,     // taken out of its bin by a thread that grows or trims the heap
  lent,     // part of a page that a block elsewhere uses
  unmapped, // addresses without memory, in a range
  stale,    // addresses whose pages went elsewhere, mapped until their stream has passed
  closed,   // addresses beside a spliced block, of a page that is used elsewhere
};

// A stream that uses a block beside the block's own, from record_stream until its event has passed.
struct Use {
  PendingQueue *queue;
  tb_event *event;
  tb_block *block;
  Use *next; // of the block, then of the queue
};

struct FreeArray {
  void operator()(void *array) const noexcept { std::free(array); }
};

// One piece of driver memory, or a range of addresses, cut into blocks without gaps.
struct Segment {
  Heap *heap = nullptr;
  Pool *pool = nullptr;
  char *base = nullptr;
  uint64_t size = 0; // of the address range
  tb_block *first = nullptr;
  std::shared_ptr<Program> program;                  // of the plan whose places it holds
  bool growing = false;                              // address range with memory mapped as needed
  std::unique_ptr<tb_physical *[], FreeArray> pages; // of a growing one; NULL where nothing is mapped
};

// A page's second mapping: the part that is used there, where it was free, and the addresses beside it there.
struct View {
  tb_block *lent, *closed;
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
  // All or none.
  template <size_t count> void take(Record *(&out)[count]) {
    for (size_t at = 0; at < count; ++at) {
      try {
        out[at] = take();
      } catch (...) {
        while (at > 0) give(out[--at]);
        throw;
      }
    }
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

} // namespace tb::allocator

// Of cache lines of its own: threads write to neighbours on the slab at the same time.
struct alignas(64) tb_block {
  char *pointer = nullptr;
  uint64_t size = 0;
  uint64_t requested = 0;
  tb::allocator::Segment *segment = nullptr;
  tb::allocator::Pool *pool = nullptr;
  tb_block *previous = nullptr, *next = nullptr; // neighbours by address; NULL at the ends of the segment
  tb_block *bin_previous = nullptr, *bin_next = nullptr;
  tb::allocator::Use *uses = nullptr;
  uint64_t stamp = 0;   // while free: the epoch of its stream in which its last bytes were freed
  uint32_t bin = 0;     // while free; while unmapped the place in its pool's list
  uint32_t pending = 0; // uses whose event has not passed
  tb::allocator::BlockState state = tb::allocator::BlockState::unused;
  bool cached = false; // live to the heap, but in a thread's cache
};

namespace tb::allocator {

// Others look while the cache's owner writes.
inline bool is_cached(const tb_block *block) noexcept { return __atomic_load_n(&block->cached, __ATOMIC_RELAXED); }
inline void set_cached(tb_block *block, bool value) noexcept {
  __atomic_store_n(&block->cached, value, __ATOMIC_RELAXED);
}
inline bool is_live(const tb_block *block) noexcept { return block->state == BlockState::live && !is_cached(block); }

} // namespace tb::allocator
