// page_mapper.h -- the physical pages of one heap, and the ranges of addresses that they are mapped into.
//
// A request that no free block fits gets a gap: neighbouring free and unmapped blocks. Only the unmapped part of it
// needs pages. These are new pages while the heap may grow, and otherwise pages that are idle in free blocks elsewhere.
// Such a page is mapped at its new address at once; its old addresses are stale, and stay mapped until their stream has
// passed.
//
// Locks: functions are called with the heap's growth lock held, and take the store's lock themselves; exceptions have a
// comment. Driver calls are made without the store's lock, except for event_query, which never blocks.
//
// Invariants: every mapped page is in `pages` of exactly one segment; a page of a shared block is also mapped over the
// hidden block of its view. The bounds of unmapped and stale blocks are multiples of the page. These blocks change
// under the growth lock only, so its holder may rely on them without the store's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "blocks/block_store.h"
#include "blocks/sources.h"
#include "blocks/stream_events.h"
#include "host.h"

namespace tb::allocator {

class PageMapper {
public:
  PageMapper(BlockStore &store, StreamEvents &events, const Driver &driver, Source &source)
      : store_(store), events_(events), driver_(driver), source_(source) {}

  // Asks the driver for the size of a page, once.
  tb_status find_page();
  // Whether the driver, or the limit, had no page the last time that one was asked for. Needs no lock.
  bool full() const noexcept { return full_.load(std::memory_order_relaxed); }

  // paging.cpp. Maps pages for the request: with beyond_soft_limit also those that take the heap above its soft limit.
  tb_status grow_range(const Request &request, bool beyond_soft_limit, tb_block **out);
  // Whether a long block may look at other streams for a better fit: a few may, each time that pages have moved. The
  // store's lock is held; the growth lock need not be.
  bool may_look() noexcept { return looks_left_ && looks_left_--; }

  // remapping.cpp. Composes a block of whole pages and free parts of pages whose other part is in use.
  // last_resort: take as many pages as needed; otherwise only where it saves a whole page.
  tb_status remap(const Request &request, bool last_resort, tb_block **out);
  // remap() before anything else is tried, if memory is scarce; TB_OUT_OF_MEMORY otherwise.
  tb_status use_parts(const Request &request, tb_block **out);
  // Returns shared parts of pages to their streams where the remapped block is free again.
  void return_parts();
  // Whether memory is so scarce that a large request should use parts of pages first. The store's lock is held; the
  // growth lock need not be.
  bool is_scarce(const Request &request) const noexcept;

  // timeline.cpp. Ends the stream's epoch with an event, unless nothing was freed in it. Afterwards the last mark
  // covers everything that was freed until now.
  tb_status mark(StreamPools &pools);
  // Looks at the stream's marks, and moves `passed` forward.
  void advance(Timeline &timeline) noexcept;
  // Unmaps the stale addresses that their streams have passed.
  tb_status retire_all() noexcept;
  // Waits for the device. Afterwards every stream has passed all that was freed before.
  tb_status synchronize();

  // ranges.cpp. Merges free neighbours that could not be merged when they were freed. The store's lock is held.
  void join_free();
  // Gives the whole pages of free blocks back to the driver. Their streams have passed them.
  tb_status release_pages();
  tb_status release_empty_ranges();

  // runs.cpp, for pauses. Gives all pages back while the addresses stay; backup: with a copy of their bytes in host
  // memory. Throws std::bad_alloc, or fails without having changed anything, as long as unmap_all() was not called.
  tb_status copy_out(bool backup);
  tb_status unmap_all();
  tb_status map_all(); // with the bytes of the copy; when it fails, nothing is mapped
  void forget_runs() noexcept;
  // Maps new pages over all of a segment, for the places of a plan; all or none.
  tb_status fill(Segment &segment);

private:
  struct Piece { // whole pages, or part of one, inside a free block of a range; the block is reserved
    tb_block *block = nullptr;
    uint64_t from = 0, to = 0; // segment offsets
    tb_block *spare[2] = {};   // records for the remainders on either side
  };
  struct Gap { // neighbouring free and unmapped blocks, from `first` to `last`, with room for a request
    tb_block *first = nullptr, *last = nullptr;
    uint64_t from = 0, to = 0; // segment offsets of the gap; pages in it may already be mapped
    uint64_t pages = 0;        // to map
  };
  struct PageBatch {           // the pages for one request
    std::vector<Piece> pieces; // pages to move
    std::vector<tb_physical *> fresh;
    uint64_t pages = 0; // of both
  };
  struct View { // a page's second mapping: the part of it that is used there, and the rest of the page there
    tb_block *shared, *hidden;
  };
  struct Run { // mapped pages, one after another
    Segment *segment;
    uint64_t first, count;
  };
  struct Remapping;

  // ranges.cpp
  tb_status reserve_range(Pool &pool);
  // Makes room in the list of holes. Stale blocks become holes later, which must not fail. The store's lock is held.
  void reserve_holes(bool large, size_t more);
  void add_hole(tb_block *block) noexcept;    // the store's lock is held
  void remove_hole(tb_block *block) noexcept; // from its list; the store's lock is held
  Piece whole_pages(tb_block *block) const noexcept;
  void reserve(Piece &piece);                               // the store's lock is held
  tb_block *split(Piece &piece, BlockState state) noexcept; // into a block of its own; the store's lock is held
  void insert(std::vector<Piece> &pieces) noexcept;         // free again; the store's lock is held

  // paging.cpp
  bool find_gap(Pool &pool, uint64_t size, Gap *out); // the store's lock is held
  // remainders: records for the blocks beyond the gap's ends, which stay free. The store's lock is held.
  void reserve(const Gap &gap, tb_block *(&remainders)[2]) noexcept;
  void insert(const Gap &gap) noexcept;                                       // free again; the store's lock is held
  tb_status map(const Gap &gap);                                              // the batch
  void drop_batch() noexcept;                                                 // the request failed
  void count_batch(Pool &pool) noexcept;                                      // it is mapped; the store's lock is held
  tb_block *make_block(const Gap &gap, Pool &pool, tb_block *spare) noexcept; // the store's lock is held

  // reclaiming.cpp: fills the batch. stamp: the epoch that the new block must not be older than.
  tb_status gather(const Request &request, uint64_t pages, bool beyond_soft_limit, uint64_t *stamp);
  tb_status create(uint64_t pages);
  void reclaim(StreamPools &from, uint64_t pages, bool passed_only); // the store's lock is held
  tb_status wait_for_donors(Timeline &mine, tb_stream *stream, uint64_t *stamp);
  // The other streams with so many free bytes; valid until the next call.
  const std::vector<StreamPools *> &others(const StreamPools &own, uint64_t least);
  // Records an event on each of these, where none is pending, and looks at it.
  void look_at_others(tb_stream *stream, uint64_t least);

  // remapping.cpp
  Remapping find_parts(const Pool &pool, uint64_t size); // the store's lock is held
  char *address_of(const View &view) const noexcept;
  tb_status map_view(const View &view);

  // timeline.cpp
  tb_status retire(Timeline &timeline) noexcept;

  // runs.cpp
  void find_runs();
  uint64_t run_bytes() const noexcept;
  tb_status copy_runs(int32_t kind);
  tb_status fill_run(const Run &run);
  tb_status empty_run(const Run &run, uint64_t count) noexcept;

  BlockStore &store_;
  StreamEvents &events_;
  const Driver driver_;
  Source &source_;
  std::vector<tb_block *> holes_[2]; // unmapped blocks, by whether they are of the large pools
  size_t stale_ = 0;                 // how many blocks are stale; guarded by the growth lock
  uint64_t range_size_ = 0;          // of addresses
  std::atomic<bool> full_{false};
  std::vector<View> views_; // guarded by the growth lock
  PageBatch batch_;         // of the current request
  std::vector<StreamPools *> donors_;
  uint32_t looks_left_ = 0;        // guarded by the store's lock
  std::vector<Run> runs_;          // while paused: what map_all() maps
  std::unique_ptr<char[]> backup_; // their bytes
};

} // namespace tb::allocator
