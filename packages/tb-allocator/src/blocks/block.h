// block.h -- the records of memory, kept apart from the memory itself, to which the host may have no access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "tb/component.h"

namespace tb::allocator {

class Heap;
class PlacedBlocks;
struct Pool;
struct Segment;
struct PendingQueue;

enum class BlockState : uint8_t {
  unused,    // the record is on the free list
  free,      // in a bin
  allocated, // the caller has it, or a thread cache
  pending,   // freed by the caller, and still used by other streams
  planned,   // allocated at a place of a plan; or all of the memory of a plan
  reserved,  // removed from its bin by a thread that grows or trims the heap
  shared,    // part of a page that a block at another address uses
  unmapped,  // addresses without memory, in a range
  stale,     // addresses whose pages moved, still mapped until their stream has passed
  hidden,    // addresses beside a remapped block, over a part of a page that is used elsewhere
};

// One other stream that uses a block, from record_stream until its event has passed.
struct Use {
  PendingQueue *queue;
  tb_event *event;
  tb_block *block;
  Use *next; // of the block, then of the queue
};

struct FreeArray {
  void operator()(void *array) const noexcept { std::free(array); }
};

// One piece of driver memory, or a range of addresses, divided into blocks without gaps.
struct Segment {
  Heap *heap = nullptr;
  Pool *pool = nullptr;
  char *base = nullptr;
  uint64_t size = 0; // of the address range
  tb_block *first = nullptr;
  std::shared_ptr<PlacedBlocks> placed;              // set where a plan has the memory
  bool growing = false;                              // a range of addresses whose pages are mapped as needed
  std::unique_ptr<tb_physical *[], FreeArray> pages; // of a growing one; NULL where nothing is mapped
};
using Segments = std::map<char *, Segment>; // by address

// Records of one kind, which have a member `next`. Their memory is never given back to the system. Guarded by the
// heap's lock.
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
        while (at > 0) release(out[--at]);
        throw;
      }
    }
  }
  void release(Record *record) noexcept {
    record->next = free_;
    free_ = record;
  }

private:
  static constexpr size_t slab = 256;
  [[gnu::noinline]] void refill() {
    slabs_.push_back(std::make_unique<Record[]>(slab));
    for (size_t i = slab; i-- > 0;) release(&slabs_.back()[i]);
  }
  std::vector<std::unique_ptr<Record[]>> slabs_;
  Record *free_ = nullptr;
};

} // namespace tb::allocator

// Each record has cache lines of its own, because threads write to neighbours on the slab at the same time.
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
  uint32_t bin = 0;     // while free; while unmapped the index in the list of holes; while planned that of its entry
  uint32_t pending = 0; // uses whose event has not passed
  tb::allocator::BlockState state = tb::allocator::BlockState::unused;
  bool cached = false; // in a thread cache, while the heap's records call it allocated
};

namespace tb::allocator {

// Other threads read `cached` while the cache's owner writes it.
inline bool is_cached(const tb_block *block) noexcept { return __atomic_load_n(&block->cached, __ATOMIC_RELAXED); }
inline void set_cached(tb_block *block, bool value) noexcept {
  __atomic_store_n(&block->cached, value, __ATOMIC_RELAXED);
}
inline bool is_allocated(const tb_block *block) noexcept {
  return block->state == BlockState::allocated && !is_cached(block);
}

// The blocks of a segment whose memory a plan has. All functions are called with the heap's lock held.
class PlacedBlocks {
public:
  virtual ~PlacedBlocks() = default;
  // The allocated block at the address, or NULL.
  virtual tb_block *find(const char *address) noexcept = 0;
  // The last stream that used the block has passed.
  virtual void freed(tb_block *block) noexcept = 0;
  // Copies of the allocated blocks and of the gaps between them, as one row, for a snapshot.
  virtual std::vector<tb_block> row() const = 0;
};

} // namespace tb::allocator
