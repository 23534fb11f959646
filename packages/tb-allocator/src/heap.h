// heap.h -- a stream-ordered caching allocator over one source of memory: the core of tb-allocator.
//
// Memory comes from the driver in segments, which are cut into blocks. Each stream has free blocks of its own, in a
// pool for small and one for large requests; a deallocated block goes back there at once, because work that its stream
// gets later runs after all that used it before. A block that other streams were recorded on waits for one event each.
// Segments without a live block go back to the driver when memory runs out, and in empty_cache.
//
// Locks: `lock_` guards all records and is held for short sections without driver calls (but event_query, which never
// blocks). `growth_` is held, outside of it, while memory comes from or goes to the driver; so a thread that finds no
// memory waits for the one that is just getting some, while cached memory stays available to all.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "bins.h"
#include "block.h"
#include "configuration.h"
#include "counters.h"
#include "host.h"
#include "lock.h"
#include "sources.h"

namespace tb {

inline constexpr uint64_t MiB = uint64_t{1} << 20;
inline constexpr uint64_t small_limit = MiB; // larger requests go to the large pool

// The free blocks of one stream and one of its two kinds.
struct Pool {
  Bins bins;
  tb_stream *stream = nullptr;
  bool large = false;
  uint64_t least_rest = unit;       // a smaller rest of a cut stays with the block
  std::vector<tb_block *> unmapped; // of its growing segments
};

struct StreamPools {
  Pool small, large;
};

// The uses of one stream, in the order of their events, and that stream's spare events.
struct PendingQueue {
  tb_stream *stream = nullptr;
  int32_t device = -1;  // where its events are made
  bool settled = false; // an event was recorded, so `device` is right
  Use *head = nullptr, *tail = nullptr;
  std::vector<tb_event *> events;
};

// Sizes, by kind of memory.
struct HeapPolicy {
  uint64_t granule = unit;            // requests are rounded up to it
  uint64_t small_segment = 2 * MiB;   // shared by small blocks
  uint64_t medium_limit = 10 * MiB;   // larger requests get a segment of their own size
  uint64_t medium_segment = 20 * MiB; // shared by large blocks up to medium_limit
  uint64_t large_rounding = 2 * MiB;  // of a segment's own size
  bool growing = false;               // segments of mapped pages: TB_ALLOC_CONF=expandable_segments:True
  uint64_t total_memory = 0;          // of the device, for the length of the growing segments' addresses
};

// Of a device with so much memory and such an alignment of mem_alloc.
HeapPolicy device_policy(const Configuration &configuration, uint64_t total_memory, uint64_t alignment);

class Heap {
public:
  Heap(const Driver &driver, std::unique_ptr<Source> source, const HeapPolicy &policy);

  // NULL streams stand for the device's default stream. Throws std::bad_alloc when the host has no memory for records.
  tb_status allocate(uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block);
  void deallocate(tb_block *block) noexcept;
  tb_status record_stream(tb_block *block, tb_stream *stream);
  // Live blocks only. Walks the blocks of one segment: not for every operator.
  tb_block *find(const void *pointer);
  tb_status empty_cache();
  void statistics(tb_allocator_statistics *out);
  void reset_peak();
  void reset_accumulated();
  void set_limit(uint64_t bytes);
  // Gives back what nobody holds, and the events. Live blocks stay readable until the process ends.
  void shutdown();

private:
  struct Request {
    uint64_t size, rounded;
    tb_stream *stream;
  };
  using Segments = std::map<char *, Segment>;
  struct Idle { // whole chunks inside a free block of a growing segment
    tb_block *block;
    uint64_t from, to; // offsets in its segment
    tb_block *spare[2];
  };

  // heap.cpp, with lock_ held
  Pool &pool_of(tb_stream *stream, bool large) {
    StreamPools *pools = last_;
    if (!pools || pools->small.stream != stream) [[unlikely]]
      pools = find_pools(stream);
    return large ? pools->large : pools->small;
  }
  StreamPools *find_pools(tb_stream *stream); // made at the stream's first request
  tb_block *take(tb_block *free, uint64_t rounded, uint64_t requested);
  void release(tb_block *block) noexcept;  // to the free blocks, from live or pending
  tb_block *put(tb_block *block) noexcept; // merges with free neighbours and bins the result, which it returns
  void take_out(tb_block *block) noexcept; // of its bin; state held
  void unlink(tb_block *block) noexcept;   // out of its segment's row; the record is given back
  tb_block *new_block(Segment &segment, Pool &pool, char *pointer, uint64_t size);
  void insert_after(tb_block *block, tb_block *added) noexcept;

  // pending.cpp: blocks that other streams still use
  PendingQueue &queue_of(tb_stream *stream);
  tb_status poll(uint32_t limit) noexcept; // looks at so many events; lock_ held
  void finish(PendingQueue &queue) noexcept;
  void wait_for_uses(tb_block *block, Use *uses) noexcept;
  tb_status record_event(PendingQueue &queue, tb_event **out) noexcept;
  tb_status wait_for_pending();

  // growth.cpp, with growth_ held
  tb_status allocate_slow(const Request &request, tb_block **out);
  tb_status take_cached(const Request &request, tb_block **out);
  tb_status grow(const Request &request, tb_block **out);
  tb_status grow_segment(const Request &request, uint64_t bytes, tb_block **out);
  tb_status release_cached();
  uint64_t segment_size(uint64_t rounded) const;
  bool admits(uint64_t bytes);

  // growing.cpp: segments of virtual memory, with growth_ held
  tb_status grow_range(const Request &request, tb_block **out);
  tb_status reserve_range(Pool &pool);
  tb_status map(char *address, uint64_t bytes, uint64_t chunk);
  tb_status unmap(char *address, uint64_t bytes, uint64_t chunk);
  uint64_t chunk_size(const Pool &pool) const;
  void collect_idle(std::vector<Idle> &out); // lock_ held
  tb_status unmap_idle(std::vector<Idle> &idle);
  tb_status release_empty_ranges();

  // report.cpp
  tb_status out_of_memory(const Request &request);

  Lock lock_;
  std::mutex growth_;
  Driver driver_;
  std::unique_ptr<Source> source_;
  HeapPolicy policy_;
  tb_stream *default_stream_ = nullptr;
  StreamPools *last_ = nullptr; // of the latest request
  Counters counters_;
  Records<tb_block> blocks_;
  Records<Use> uses_;
  std::vector<std::unique_ptr<StreamPools>> pools_;
  Segments segments_;
  uint32_t pending_ = 0; // uses in all queues
  size_t poll_next_ = 0;
  std::vector<std::unique_ptr<PendingQueue>> queues_;
  uint64_t limit_ = UINT64_MAX;
  uint64_t granularity_ = 0; // of virtual memory
  uint64_t range_size_ = 0;
  tb_status failure_ = TB_OK; // of queued work, found where nothing could be returned; the next allocate reports it
  char failure_text_[256] = "";
};

} // namespace tb
