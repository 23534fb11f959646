// heap.h -- a stream-ordered caching allocator over one source of memory: the core of tb-allocator.
//
// Memory comes from the driver in segments, or in pages mapped into ranges of addresses, and is divided into blocks.
// Each stream has free blocks of its own, in a pool for small and one for large requests. A freed block is available to
// its stream at once, because work that the stream gets later runs after all work that used the block. A block that
// other streams were recorded on waits for one event of each. Segments without an allocated block go back to the driver
// when memory runs out, and in empty_cache().
//
// The parts of a heap: BlockStore has the blocks, StreamEvents the events, PageMapper the pages, PendingFrees the freed
// blocks that are still used, ThreadCaches the blocks that stay with a thread. This class decides where the memory for
// a request comes from. A StepPlanner may serve a step that repeats.
//
// Locks: the lock of the store guards all records. It is held for short sections without driver calls, except for
// event_query, which never blocks. `growth_` is held, outside of it, while memory comes from or goes to the driver. So
// a thread that finds no memory waits for the one that is getting some, while cached memory stays available to all.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "blocks/block_store.h"
#include "blocks/sources.h"
#include "blocks/stream_events.h"
#include "heap/pending_frees.h"
#include "heap/step_planner.h"
#include "heap/thread_caches.h"
#include "host.h"
#include "pages/page_mapper.h"
#include "waiting_mutex.h"

namespace tb::allocator {

class Heap {
public:
  Heap(const Driver &driver, std::unique_ptr<Source> source, const HeapPolicy &policy);
  ~Heap();

  // NULL streams stand for the device's default stream. Throws std::bad_alloc when the host has no memory for records.
  tb_status allocate(uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block) {
    if (StepPlanner *planner = open_step_.load(std::memory_order_acquire)) [[unlikely]]
      return planner->allocate_in_step(size, stream, out_pointer, out_block);
    uint64_t rounded = (size + store_.policy.granule - 1) & ~(store_.policy.granule - 1);
    if (ThreadCache *cache = recent_cache; rounded <= ThreadCache::largest && caches_.serves(cache) &&
                                           !cache->passing.load(std::memory_order_relaxed)) [[likely]]
      if (tb_block *block = caches_.take(*cache, rounded, size, stream ? stream : store_.default_stream)) [[likely]] {
        *out_pointer = block->pointer;
        *out_block = block;
        return TB_OK;
      }
    return allocate_uncached(size, stream, out_pointer, out_block);
  }
  void deallocate(tb_block *block) noexcept {
    if (StepPlanner *planner = open_step_.load(std::memory_order_acquire)) [[unlikely]]
      planner->before_free(block);
    if (block->size <= ThreadCache::largest && !block->uses && !block->pool->large && caches_.insert(block)) [[likely]]
      return;
    deallocate_uncached(block);
  }
  tb_status record_stream(tb_block *block, tb_stream *stream) { return frees_.record_stream(block, stream); }
  // The allocated block at an address, or NULL. Walks the blocks of one segment: not for every operator.
  tb_block *find(const void *pointer);
  // Gives cached memory back to the driver. Waits for the device.
  tb_status empty_cache();
  void statistics(tb_allocator_statistics *out);
  void reset_peak();
  void reset_accumulated();
  void retract_out_of_memory();   // the last failure is none, because a second try follows
  void set_limit(uint64_t bytes); // of a device's own heap: of all heaps of the device together
  const HeapPolicy &policy() const { return store_.policy; }
  int32_t device() const { return source_->device(); } // -1: the host
  bool has_allocated_blocks();

  // pausing.cpp. Gives all memory back while blocks keep their addresses; backup: with a copy of their bytes. When it
  // fails before memory is unmapped, nothing has changed.
  tb_status pause(bool backup);
  tb_status resume();
  bool paused() {
    std::lock_guard guard(store_.lock);
    return paused_;
  }

  // inspection.cpp. A pickle of what torch.cuda.memory._snapshot() returns; the history as a log of RMM, and as a
  // trace.
  std::string snapshot();
  std::string rmm_log();
  std::string trace();
  // Forgets the history, and remembers so many events from now on.
  void resize_history(uint64_t events);

  // The heap's planner, which `make` creates at the first call.
  StepPlanner &planner(std::unique_ptr<StepPlanner> (*make)(Heap &heap)) {
    std::lock_guard growth(growth_);
    if (!planner_) planner_ = make(*this);
    return *planner_;
  }

  // Gives back everything that is not allocated, and the events. Allocated blocks stay readable until the process ends.
  void shutdown();

private:
  friend class StepPlanner;

  // heap.cpp
  tb_status allocate_uncached(uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block);
  void deallocate_uncached(tb_block *block) noexcept;
  uint64_t round(uint64_t size) const noexcept {
    uint64_t granule = store_.policy.granule;
    if (store_.policy.growing && size >= coarse_from) granule = std::max(coarse, granule);
    return (std::min(size, size_limit) + granule - 1) & ~(granule - 1);
  }
  // What every allocation checks before it looks for memory; the store's lock is held.
  tb_status check_state() {
    if (paused_) [[unlikely]]
      return refuse_paused();
    if (frees_.any()) [[unlikely]]
      frees_.poll_sometimes();
    return events_.failed() ? events_.report_failure() : TB_OK;
  }
  tb_status refuse_paused();

  // growth.cpp, with growth_ held
  tb_status allocate_slow(const Request &request, tb_block **out);
  tb_status allocate_cached(const Request &request, tb_block **out);
  tb_status grow(const Request &request, tb_block **out);
  tb_status grow_pages(const Request &request, tb_block **out);
  tb_status grow_segments(const Request &request, tb_block **out);
  tb_status find_page();
  tb_status allocate_segment(const Request &request, uint64_t bytes, tb_block **out);
  uint64_t segment_size(uint64_t rounded) const;
  tb_status release_idle_for(uint64_t bytes);
  tb_status release_cached();
  tb_status release_segments(const std::vector<Segments::iterator> &segments);
  tb_status out_of_memory(const Request &request); // the failure with its figures

  // cross_stream.cpp, with growth_ held
  tb_status take_from_other_stream(const Request &request, bool own_kind, bool passed_only, tb_block **out);
  // The store's lock is held for these; the second needs no growth_.
  tb_block *take_from(StreamPools &donor, StreamPools &own, const Request &request, bool own_kind, uint64_t until,
                      uint64_t stamp);
  tb_block *better_fit(tb_block *free, Pool &pool, const Request &request) noexcept;

  // pausing.cpp
  void set_paused(bool value) noexcept { // the store's lock is held
    paused_ = value;
    caches_.stop.set(AllocationStop::paused, value);
  }
  void end_pause() noexcept;

  // inspection.cpp
  History::Clock read_history(std::vector<HistoryEvent> *events);

  ThreadCaches caches_;                           // first, so that the path of a cached allocation computes no address
  std::atomic<StepPlanner *> open_step_{nullptr}; // the planner, while one of its steps is open
  bool paused_ = false;                           // written with both locks
  Driver driver_;
  std::unique_ptr<Source> source_;
  BlockStore store_;
  StreamEvents events_;
  PageMapper pages_;
  PendingFrees frees_;
  WaitingMutex growth_;
  std::vector<StreamPools *> donors_; // of the current request; guarded by growth_
  std::unique_ptr<StepPlanner> planner_;
};

} // namespace tb::allocator
