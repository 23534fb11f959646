// heap.h -- a stream-ordered caching allocator over one source of memory: the core of tb-allocator.
//
// Memory comes from the driver in segments, or in pages mapped into ranges of addresses, and is cut into blocks. Each
// stream has free blocks of its own, in a pool for small and one for large requests; a deallocated block goes back there
// at once, because work that its stream gets later runs after all that used it before. A block that other streams were
// recorded on waits for one event each. Segments without a live block go back to the driver when memory runs out, and in
// empty_cache.
//
// Locks: `lock_` guards all records and is held for short sections without driver calls (but event_query, which never
// blocks). `growth_` is held, outside of it, while memory comes from or goes to the driver; so a thread that finds no
// memory waits for the one that is just getting some, while cached memory stays available to all.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "blocks/bins.h"
#include "blocks/block.h"
#include "blocks/counters.h"
#include "blocks/lock.h"
#include "blocks/policy.h"
#include "blocks/pools.h"
#include "blocks/sources.h"
#include "diagnostics/history.h"
#include "heap/thread_cache.h"
#include "host.h"
#include "waiting_mutex.h"

namespace tb::allocator {

class Plan;
class Program;

class Heap {
public:
  Heap(const Driver &driver, std::unique_ptr<Source> source, const HeapPolicy &policy);
  ~Heap();

  // NULL streams stand for the device's default stream. Throws std::bad_alloc when the host has no memory for records.
  tb_status allocate(uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block) {
    if (step_open_.load(std::memory_order_relaxed)) [[unlikely]]
      return allocate_in_step(size, stream, out_pointer, out_block);
    uint64_t rounded = (size + policy_.granule - 1) & ~(policy_.granule - 1);
    if (ThreadCache *cache = recent_cache; rounded <= ThreadCache::largest && cache &&
                                           cache->heap.load(std::memory_order_relaxed) == this &&
                                           !cache->rest.load(std::memory_order_relaxed)) [[likely]]
      if (tb_block *block = take_from_cache(*cache, rounded, size, stream ? stream : default_stream_)) [[likely]] {
        *out_pointer = block->pointer;
        *out_block = block;
        return TB_OK;
      }
    return allocate_dynamic(size, stream, out_pointer, out_block);
  }
  void deallocate(tb_block *block) noexcept {
    if (step_open_.load(std::memory_order_relaxed)) [[unlikely]]
      note_free(block);
    if (block->size <= ThreadCache::largest && !block->uses && !block->pool->large && give_to_cache(block)) [[likely]]
      return;
    deallocate_dynamic(block);
  }
  tb_status record_stream(tb_block *block, tb_stream *stream);
  // Live blocks only. Walks the blocks of one segment: not for every operator.
  tb_block *find(const void *pointer);
  tb_status empty_cache();
  void statistics(tb_allocator_statistics *out);
  void reset_peak();
  void reset_accumulated();
  void set_limit(uint64_t bytes);
  const HeapPolicy &policy() const { return policy_; }
  // pausing.cpp. Gives all memory back while blocks keep their addresses; backup: with their bytes. All or nothing.
  tb_status pause(bool backup);
  tb_status resume();
  bool paused() {
    std::lock_guard guard(lock_);
    return paused_;
  }
  // plan/steps.cpp, plan/places.cpp. A plan lives as long as the heap; another name, another plan. Steps of one heap do
  // not overlap; what all threads ask of it meanwhile belongs to the step. completed: false for one that was broken off.
  Plan *plan(const std::string &name, uint32_t warmup);
  tb_status begin_step(Plan &plan);
  void end_step(Plan &plan, bool completed) noexcept;
  tb_status reset_plan(Plan &plan); // gives its memory to the heap, and starts anew
  template <class Read> auto read_plan(const Plan &plan, Read read) {
    std::lock_guard guard(lock_);
    return read(plan);
  }
  // snapshot.cpp. A pickle of what torch.cuda.memory._snapshot() gives; the history as a log of RMM, and as a trace.
  std::string snapshot();
  std::string rmm_log();
  std::string trace();
  void resize_history(uint64_t events);                // and forgets what there was
  int32_t device() const { return source_->device(); } // -1: the host
  bool has_live_blocks();
  void end(ThreadCache &cache) noexcept; // its thread is over; with the registry of caches held
  // Gives back what nobody holds, and the events. Live blocks stay readable until the process ends.
  void shutdown();

private:
  friend class Claim; // claims.h
  friend class Guard;

  struct Request {
    uint64_t size, rounded;
    tb_stream *stream;
  };
  using Segments = std::map<char *, Segment>;
  struct Piece { // whole pages, or part of one, inside a free block of a range, taken out of its bin
    tb_block *block = nullptr;
    uint64_t from = 0, to = 0; // offsets in its segment
    tb_block *spare[2] = {};   // records for what is left on either side
  };
  struct Gap { // neighbouring free and unmapped blocks, from `first` to `last`, with room for a request
    tb_block *first = nullptr, *last = nullptr;
    uint64_t from = 0, to = 0; // offsets in their segment: what has to be mapped, but for what is
    uint64_t pages = 0;        // to map
  };
  struct Run { // mapped pages, one after another
    Segment *segment;
    uint64_t first, count;
  };
  struct Splice;
  // What a request is put together from.
  struct Harvest {
    std::vector<Piece> pieces; // pages to move here
    std::vector<tb_physical *> fresh;
    uint64_t pages = 0; // of both
  };

  // thread_cache.cpp
  tb_block *take_from_cache(ThreadCache &cache, uint64_t rounded, uint64_t size, const tb_stream *stream) noexcept {
    std::lock_guard guard(cache.lock);
    if (shut_.load(std::memory_order_relaxed)) [[unlikely]]
      return nullptr;
    tb_block *block = cache.take(stream, rounded, size);
    if (cache.page_is_full()) [[unlikely]]
      turn_page(cache);
    return block;
  }
  bool give_to_cache(tb_block *block) noexcept;
  ThreadCache *find_cache() noexcept; // this thread's, or NULL
  ThreadCache *make_cache() noexcept;
  void take_caches_back(bool for_request = false) noexcept; // which tells what they are worth
  // With the cache's lock.
  ThreadCache::Lists *new_lists(ThreadCache &cache, Pool &pool) noexcept;
  void make_room(ThreadCache &cache, ThreadCache::Lists &lists, const tb_block *block) noexcept;
  void turn_page(ThreadCache &cache) noexcept;
  // With the cache's lock and lock_.
  void settle(ThreadCache &cache) noexcept; // tells its counts
  void take_back(ThreadCache &cache, ThreadCache::Lists &lists, size_t bin, uint32_t keep) noexcept;
  void take_back(ThreadCache &cache, ThreadCache::Lists &lists) noexcept;
  void take_all_back(ThreadCache &cache) noexcept;
  // plan/steps.cpp
  tb_status allocate_in_step(uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block);
  void note_free(tb_block *block) noexcept;
  void deallocate_planned(tb_block *block) noexcept;
  void abandon_step(Plan &plan) noexcept;
  tb_status make_program(Plan &plan);
  void count_planned(tb_block &block, uint64_t requested) noexcept; // lock_ held
  bool is_large(const tb_block &block) const noexcept { return block.size > policy_.small_limit; }

  // plan/places.cpp, with growth_ held
  tb_status make_places(Program &program);
  void dissolve(Program &program);
  tb_status drop_program(Plan &plan);
  bool drop_idle_places();
  void give_records_back(Program &program) noexcept;                            // lock_ held
  tb_block *find_planned(const Program &program, const char *address) noexcept; // lock_ held
  std::vector<tb_block> planned_row(const Segment &segment);                    // lock_ held

  // heap.cpp
  tb_status allocate_dynamic(uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block);
  void deallocate_dynamic(tb_block *block) noexcept;
  uint64_t round(uint64_t size) const noexcept {
    uint64_t granule = policy_.growing && size >= coarse_from ? std::max(coarse, policy_.granule) : policy_.granule;
    return (std::min(size, size_limit) + granule - 1) & ~(granule - 1);
  }
  // With lock_ held.
  Pool &pool_of(tb_stream *stream, bool large) {
    StreamPools *pools = recent_[place_of(stream)];
    if (!pools || pools->small.stream != stream) [[unlikely]]
      pools = find_pools(stream);
    return large ? pools->large : pools->small;
  }
  StreamPools *find_pools(tb_stream *stream); // made at the stream's first request
  static size_t place_of(const tb_stream *stream) noexcept {
    return (reinterpret_cast<uintptr_t>(stream) * 0x9E3779B97F4A7C15) >> 60;
  }
  tb_block *take(tb_block *free, uint64_t rounded, uint64_t requested);
  void release(tb_block *block) noexcept;         // to the free blocks, as the caller counted it
  tb_block *put(tb_block *block) noexcept;        // merges with free neighbours and bins the result, which it returns
  void give(tb_block *free, Pool &pool) noexcept; // to another stream; the caller sees to the order
  void take_out(tb_block *block) noexcept;        // of its bin; state held
  // NULL: none fits, or none that is not too large for the slack.
  tb_block *find_free(const Pool &pool, const Request &request) const noexcept {
    tb_block *found = pool.bins.find(request.rounded);
    return found && policy_.whole_segments && !affords(*found, request.size) ? nullptr : found;
  }
  bool affords(const tb_block &found, uint64_t size) const noexcept;
  uint64_t soft_limit() const noexcept { // of reserved memory
    return most_active_ + static_cast<uint64_t>(static_cast<double>(most_active_) * policy_.slack);
  }
  void unlink(tb_block *block) noexcept; // out of its segment's row; the record is given back
  tb_block *new_block(Segment &segment, Pool &pool, char *pointer, uint64_t size);
  void insert_before(tb_block *block, tb_block *added) noexcept;
  void insert_after(tb_block *block, tb_block *added) noexcept;

  // pending.cpp: blocks that other streams still use
  PendingQueue &queue_of(tb_stream *stream);
  void poll(uint32_t limit) noexcept;  // looks at so many events; lock_ held
  void look_sometimes() noexcept;      // lock_ held
  tb_status report_failure() noexcept; // once; lock_ held
  tb_status refuse_paused();
  // What every allocation sees to before it looks for memory; lock_ held.
  tb_status settle_first() {
    if (paused_) [[unlikely]]
      return refuse_paused();
    if (pending_) [[unlikely]]
      look_sometimes();
    return failure_ == TB_OK ? TB_OK : report_failure();
  }
  void update_shut() noexcept { // lock_ held
    shut_.store(paused_ || failure_ != TB_OK, std::memory_order_relaxed);
  }
  void finish(PendingQueue &queue) noexcept;
  void complete(tb_block *block) noexcept; // no stream uses it any longer; lock_ held
  void wait_for_uses(tb_block *block, Use *uses) noexcept;
  void keep(tb_block *block, Use *uses) noexcept; // until the heap is shut down; lock_ held
  tb_status record_event(PendingQueue &queue, tb_event **out) noexcept;
  tb_status wait_for_pending();
  void note_failure(tb_status status) noexcept; // for the next allocate to report; lock_ held
  void keep_event(PendingQueue &queue, tb_event *event) noexcept;

  // growth.cpp, with growth_ held
  tb_status allocate_slow(const Request &request, tb_block **out);
  tb_status take_cached(const Request &request, tb_block **out);
  tb_status grow(const Request &request, tb_block **out);
  tb_status grow_segment(const Request &request, uint64_t bytes, tb_block **out);
  tb_status give_back_for(uint64_t bytes);
  tb_status release_cached();
  tb_status release_held(const std::vector<Segments::iterator> &segments);
  uint64_t segment_size(uint64_t rounded) const;
  bool admits(uint64_t bytes);

  // ranges.cpp: ranges of addresses, with growth_ held
  tb_status find_page(); // sets page_
  tb_status reserve_range(Pool &pool);
  tb_status release_empty_ranges();
  void reserve_holes(bool large, size_t more); // lock_ held
  void add_hole(tb_block *block) noexcept;     // its memory is gone; lock_ held
  void remove_hole(tb_block *block) noexcept;  // of its pool's list; lock_ held
  void join_free();                            // with neighbours that were not passed before; lock_ held
  Piece whole_pages(tb_block *block) const noexcept;
  void hold(Piece &piece);                                  // takes it out of its bin; lock_ held
  tb_block *carve(Piece &piece, BlockState state) noexcept; // the piece as a block of its own; lock_ held
  void put_back(std::vector<Piece> &pieces) noexcept;
  tb_status release_pages();

  // paging.cpp: memory for a request, with growth_ held
  tb_status grow_range(const Request &request, bool beyond_soft_limit, tb_block **out);
  bool find_gap(Pool &pool, uint64_t size, Gap *out);        // lock_ held
  void hold(const Gap &gap, tb_block *(&rests)[2]) noexcept; // rests: records for what is left; lock_ held
  void put_back(const Gap &gap) noexcept;
  tb_status map(const Gap &gap);
  void drop_harvest() noexcept;                                         // the request fails
  void use_harvest(Pool &pool) noexcept;                                // it is mapped now: counts it; lock_ held
  tb_block *fill(const Gap &gap, Pool &pool, tb_block *spare) noexcept; // now mapped: a free block; lock_ held

  // stealing.cpp: pages for a gap, with growth_ held
  tb_status gather(const Request &request, uint64_t pages, bool beyond_soft_limit, uint64_t *stamp);
  tb_status create(uint64_t pages);
  void steal(StreamPools &from, uint64_t pages, bool passed_only); // lock_ held
  tb_status wait_for_donors(Timeline &mine, tb_stream *stream, uint64_t *stamp);
  const std::vector<StreamPools *> &others(const StreamPools &own, uint64_t least); // valid until the next call
  void look_at_others(tb_stream *stream, uint64_t least);                           // at those with such bytes free

  // adopting.cpp, with growth_ held
  tb_status adopt(const Request &request, bool own_kind, bool passed_only, tb_block **out);
  tb_block *adopt_from(StreamPools &donor, StreamPools &own, const Request &request, bool own_kind, uint64_t until,
                       uint64_t stamp);                                                 // lock_ held
  tb_block *adopt_instead(tb_block *free, Pool &pool, const Request &request) noexcept; // lock_ held; not growth_

  // splicing.cpp, with growth_ held
  bool is_scarce(const Request &request) const noexcept; // lock_ held, growth_ need not be
  Splice find_parts(const Pool &pool, uint64_t size);    // lock_ held
  tb_status splice(const Request &request, bool last, tb_block **out);
  char *address_of(const View &view) const noexcept;
  tb_status map_view(const View &view);
  tb_status use_parts(const Request &request, tb_block **out);
  void return_parts();

  // pausing.cpp, with growth_ held
  void go_on() noexcept;
  void find_runs();
  uint64_t run_bytes() const noexcept;
  tb_status copy_runs(int32_t kind);
  tb_status fill_run(const Run &run);
  tb_status empty_run(const Run &run, uint64_t count) noexcept;

  // timeline.cpp, with growth_ held
  tb_status mark(StreamPools &pools);
  void advance(Timeline &timeline) noexcept;
  tb_status retire(Timeline &timeline) noexcept; // unmaps what its stream has passed
  tb_status retire_all() noexcept;
  tb_status synchronize();

  History::Clock read_history(std::vector<HistoryEvent> *events); // snapshot.cpp

  // report.cpp
  tb_status out_of_memory(const Request &request);

  std::atomic<bool> step_open_{false};
  Driver driver_;
  std::unique_ptr<Source> source_;
  HeapPolicy policy_;
  tb_stream *default_stream_ = nullptr;
  std::atomic<bool> caching_;     // there may be threads' caches
  std::atomic<bool> shut_{false}; // nothing is allocated from them: paused, or a failure is to be reported
  alignas(64) Lock lock_;         // apart from what threads read without it
  WaitingMutex growth_;
  std::vector<ThreadCache *> caches_;      // guarded by the registry of caches
  std::array<StreamPools *, 16> recent_{}; // the latest of the streams with this place
  Counters counters_;
  History history_;
  Records<tb_block> blocks_;
  Records<Use> uses_;
  std::vector<tb_block *> holes_[2]; // unmapped blocks, by whether they are of the large pools
  size_t stale_ = 0;                 // blocks; guarded by growth_
  std::vector<std::unique_ptr<StreamPools>> pools_;
  Segments segments_;
  uint32_t pending_ = 0; // uses in all queues
  size_t poll_next_ = 0;
  std::chrono::steady_clock::time_point last_look_;
  std::chrono::microseconds look_pause_{};
  std::vector<std::unique_ptr<PendingQueue>> queues_;
  tb_block *kept_ = nullptr; // of a fixed heap, by bin_next: freed, but used by other streams as well
  uint64_t limit_;
  uint64_t page_ = 0;             // the granularity of virtual memory; written with both locks
  uint64_t range_size_ = 0;       // of addresses
  std::atomic<bool> full_{false}; // the driver, or the limit, had no page the last time
  std::vector<View> views_;       // guarded by growth_
  Harvest harvest_;               // of the request at hand
  std::vector<StreamPools *> donors_;
  uint64_t most_active_ = 0;                 // bytes, as far as requests that needed pages saw
  uint32_t looks_left_ = 0;                  // at other streams, for long blocks, until pages move again
  uint32_t paused_ = 0;                      // written with both locks
  std::vector<Run> runs_;                    // while paused: what resume maps
  std::unique_ptr<char[]> backup_;           // their bytes
  std::vector<std::shared_ptr<Plan>> plans_; // guarded by growth_
  Plan *step_ = nullptr;                     // the one whose step is open
  tb_status failure_ = TB_OK; // of queued work, found where nothing could be returned; the next allocate reports it
  char failure_text_[256] = "";
};

} // namespace tb::allocator
