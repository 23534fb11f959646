// pending_frees.h -- freed blocks that other streams still use: each waits for one event per stream.
//
// Locks: the lock of the store guards everything here. Functions are called with it held, except where a comment says
// otherwise. Events are recorded and waited for without it; they are looked at with it, because event_query never
// blocks.
//
// Invariants: a block in state pending has as many uses in the queues as its `pending` says, or none and is in the list
// of kept blocks. A queue's uses are in the order of their events.
#pragma once

#include <chrono>
#include <cstdint>

#include "blocks/block_store.h"
#include "blocks/stream_events.h"
#include "host.h"

namespace tb::allocator {

class PendingFrees {
public:
  PendingFrees(BlockStore &store, StreamEvents &events, const Driver &driver, const Source &source)
      : store_(store), events_(events), driver_(driver), source_(source) {}

  // Notes that the stream uses the block. Takes the store's lock. Throws std::bad_alloc.
  tb_status record_stream(tb_block *block, tb_stream *stream);
  // A freed block becomes available when these streams have passed. Takes the store's lock.
  void wait_for_uses(tb_block *block, Use *uses) noexcept;
  // Keeps a block of a fixed heap until release_kept(): no events may be recorded for it.
  void keep(tb_block *block, Use *uses) noexcept;
  void release_kept() noexcept;
  void drop(Use *uses) noexcept; // the records only

  bool any() const noexcept { return pending_ != 0; }
  // Looks at so many events at most, and frees the blocks whose streams have passed.
  void poll(uint32_t limit) noexcept;
  // poll() of a few events, if the last look was long enough ago.
  void poll_sometimes() noexcept;
  // Waits on the host for all pending uses, and reports a failure of queued work. Takes the store's lock.
  tb_status wait_for_all();

private:
  void finish(PendingQueue &queue) noexcept; // the queue's first use
  void complete(tb_block *block) noexcept;   // no stream uses it any longer

  BlockStore &store_;
  StreamEvents &events_;
  const Driver driver_;
  const Source &source_;
  Records<Use> records_;
  uint32_t pending_ = 0; // uses in all queues
  size_t next_queue_ = 0;
  std::chrono::steady_clock::time_point last_look_;
  std::chrono::microseconds look_pause_{};
  tb_block *kept_ = nullptr; // by bin_next
};

} // namespace tb::allocator
