// step_planner.h -- what a heap calls while it has plans for steps that repeat; the room plan implements it.
//
// Plans are optional: a heap whose planner was never asked for has none. The two hooks are allocate_in_step and
// before_free, and the heap calls them only while a step is open. The other functions concern memory that a plan has.
#pragma once

#include "blocks/block_store.h"
#include "host.h"
#include "waiting_mutex.h"

namespace tb::allocator {

class PageMapper;
class PendingFrees;
class Source;
class StreamEvents;
class ThreadCache;
class ThreadCaches;

class StepPlanner {
public:
  virtual ~StepPlanner() = default;

  // Instead of the heap's own allocation. No lock is held.
  virtual tb_status allocate_in_step(uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block) = 0;
  // Before the heap frees the block. No lock is held.
  virtual void before_free(tb_block *block) noexcept = 0;

  // Frees a block in state planned. No lock is held.
  virtual void free_planned(tb_block *block) noexcept = 0;
  // A request found no memory: gives the memory of plans to the heap, and returns whether there was any. The growth
  // lock is held.
  virtual bool release_memory() = 0;

protected:
  explicit StepPlanner(Heap &heap);

  // What a planner does with its heap. Opens or closes the step: the hooks are called from now on, or no longer.
  void set_step_open(bool open) noexcept;
  tb_status allocate_without_plan(uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block);
  uint64_t round(uint64_t size) const noexcept;
  tb_status check_state();    // what every allocation checks first; the store's lock is held
  tb_status release_cached(); // waits for the device; the growth lock is held
  tb_status find_page();      // the growth lock is held
  bool paused() const noexcept;
  tb_status refuse_paused();

  Heap &heap_;
  const Driver driver_;
  Source &source_;
  BlockStore &store_;
  StreamEvents &events_;
  PageMapper &pages_;
  PendingFrees &frees_;
  ThreadCaches &caches_;
  WaitingMutex &growth_;
};

} // namespace tb::allocator
