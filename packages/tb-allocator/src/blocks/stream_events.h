// stream_events.h -- events of streams, and failures of queued work that they bring to light.
//
// Spare events are kept by stream. A failure that is found where nothing can be returned is kept, and the next
// allocation reports it, once.
//
// Locks: the lock of the store guards everything here. Functions are called with it held, except for record(), which
// takes it, because recording waits for room when the stream's queue is full.
#pragma once

#include <memory>
#include <vector>

#include "blocks/allocation_stop.h"
#include "blocks/block_store.h"
#include "blocks/sources.h"
#include "host.h"

namespace tb::allocator {

class StreamEvents {
public:
  StreamEvents(BlockStore &store, const Driver &driver, const Source &source, AllocationStop &stop)
      : store_(store), driver_(driver), source_(source), stop_(stop) {}

  // The stream's queue, created at its first use. Throws std::bad_alloc.
  PendingQueue &queue_of(tb_stream *stream);
  const std::vector<std::unique_ptr<PendingQueue>> &queues() const { return queues_; }

  // Records an event on the queue's stream. The store's lock must not be held.
  tb_status record(PendingQueue &queue, tb_event **out) noexcept;
  // Keeps an event that nobody waits for any longer.
  void recycle(PendingQueue &queue, tb_event *event) noexcept;
  // Destroys all spare events; the first failure. The store's lock must not be held.
  tb_status destroy_spare();

  // Keeps a failure for the next allocation to report. Also drops the driver's text, which belongs to no call of the
  // user.
  void note_failure(tb_status status) noexcept;
  bool failed() const noexcept { return failure_ != TB_OK; }
  // The failure that was kept, if there is one; afterwards there is none.
  tb_status report_failure() noexcept;

private:
  BlockStore &store_;
  const Driver driver_;
  const Source &source_;
  AllocationStop &stop_;
  std::vector<std::unique_ptr<PendingQueue>> queues_;
  tb_status failure_ = TB_OK;
  char failure_text_[256] = "";
};

} // namespace tb::allocator
