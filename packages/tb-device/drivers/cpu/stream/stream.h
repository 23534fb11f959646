// A stream: a queue of closures and the one thread that runs them.
//
// The thread starts at the first reserve. Destroying a stream ends the queue; the thread drains it and leaves, and the
// driver joins it later. The object itself lives as long as anything refers to it: the driver's list, events recorded
// on it, waits queued for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "drivers/common/failure.h"
#include "drivers/common/reference.h"
#include "drivers/cpu/device/device.h"
#include "drivers/cpu/stream/closure_queue.h"
#include "drivers/cpu/stream/stream_tails.h"
#include "tb/driver.h"

namespace tb::drivers::cpu {

class Capture;
class Stream;

// What a handle of stream_wrap points to; such a handle is odd. Destroyed by stream_destroy, as the wrapped stream's
// other handles are counted by StreamList.
struct StreamWrapper {
  Stream *stream;
  tb_stream *handle() noexcept { return reinterpret_cast<tb_stream *>(reinterpret_cast<uintptr_t>(this) | 1); }
  // NULL when the handle is not a wrapper's.
  static StreamWrapper *of(tb_stream *handle) noexcept {
    const uintptr_t bits = reinterpret_cast<uintptr_t>(handle);
    return bits & 1 ? reinterpret_cast<StreamWrapper *>(bits - 1) : nullptr;
  }
};

class Stream {
public:
  // native: what stream_native gives, never used twice in a process.
  Stream(Device &device, int32_t priority, bool is_default, uint64_t native)
      : device_(device), priority_(priority), is_default_(is_default), native_(native) {
    device_.tails().add(*this);
  }
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  tb_stream *handle() noexcept { return reinterpret_cast<tb_stream *>(this); }
  static Stream *of(tb_stream *handle) noexcept {
    if (const StreamWrapper *wrapper = StreamWrapper::of(handle)) [[unlikely]]
      return wrapper->stream;
    return reinterpret_cast<Stream *>(handle);
  }
  // The stream whose worker the calling thread is, or NULL.
  static Stream *running() noexcept;

  Device &device() const noexcept { return device_; }
  int32_t priority() const noexcept { return priority_; }
  bool is_default() const noexcept { return is_default_; }
  uint64_t native() const noexcept { return native_; }
  ClosureQueue &queue() noexcept { return queue_; }
  FailureSlot &failures() noexcept { return failures_; }

  // Storage for a closure, or a failure with its text set. In the queue, or in the graph while the stream captures.
  tb_status reserve(uint64_t size, void **out, uint64_t &end);
  // False: the storage did not come from a reserve of this stream.
  bool commit(void *storage, const tb_closure *closure) {
    if (!queue_.owns(storage)) [[unlikely]]
      return commit_captured(storage, closure);
    queue_.commit(storage, closure);
    return true;
  }
  bool cancel(void *storage);

  // The capture that the stream takes part in, or NULL.
  std::shared_ptr<Capture> capture();
  bool capturing() const noexcept { return capturing_.load(std::memory_order_acquire); }
  bool start_capture(std::shared_ptr<Capture> capture); // false: it has one
  void stop_capture() noexcept;

  // Waits for a position on behalf of a host thread, which running work can see as a waiter, then reports the failure
  // that the wait covers. Refused on this stream's own worker. Spins for `spin` pauses before it sleeps.
  tb_status synchronize(uint64_t position, uint32_t spin);
  // Waits for a position on a host thread, which may run the work meanwhile.
  void wait_or_run(uint64_t position, uint32_t spin);
  tb_status query(uint64_t position);
  // Waits on another stream's worker: does not count as a waiter and reports nothing.
  void wait_for(uint64_t position) noexcept;
  // On this stream's worker, inside a closure that has waited for a position of another stream: takes over the failures
  // that the wait covers, as of the running record.
  void inherit(Stream &source, uint64_t position) {
    failures_.inherit(source.failures_, position, native_, running_end_);
  }

  // On this stream's worker, inside a closure or instead of one: runs a closure, unless a failure leaves it out, and keeps
  // its failure as of the running record. `context` gets a fresh text.
  // in_graph: the closure's context says that no host thread takes part.
  void run_closure(const tb_closure &closure, void *storage, tb_closure_context &context, bool in_graph = false);
  // tb_closure_context.next of what the queue holds.
  static const tb_closure *next_queued(const tb_closure_context *context, void **storage) noexcept;

  // Promises that no more work comes. The worker drains the queue; join() returns at once when is_drained().
  void end() noexcept { queue_.end(); }
  bool is_drained() const noexcept { return !started_.load() || drained_.load(); }
  void join();

private:
  ~Stream() { device_.tails().remove(*this); }
  tb_status start();
  void work();
  static constexpr uint32_t error_capacity = 896;
  tb_closure_context make_context(char *error_text) noexcept;
  void run_entry(ClosureQueue::Entry &entry, tb_closure_context &context);
  void run_as_waiter(uint64_t position);
  bool commit_captured(void *storage, const tb_closure *closure);

  Device &device_;
  const int32_t priority_;
  const bool is_default_;
  const uint64_t native_;
  std::atomic<bool> capturing_{false}; // whether capture_ is set, for the hot path
  std::atomic<uint32_t> references_{1};
  std::atomic<uint32_t> waiting_{0}; // host threads in synchronize, or asleep before a full queue
  ClosureQueue queue_;
  FailureSlot failures_;
  uint64_t running_end_ = 0;                     // the worker's: the position after the record it runs
  const ClosureQueue::Entry *running_ = nullptr; // the worker's: that record
  std::shared_ptr<Failure> spare_; // the worker's: made in advance, so that running out of memory can be reported
  std::mutex capture_mutex_;
  std::shared_ptr<Capture> capture_;
  std::mutex start_mutex_;
  std::atomic<bool> started_{false};
  std::atomic<bool> drained_{false};
  std::thread worker_;
};

// Destroys a closure; an exception of its destructor has no status to report through and is dropped.
void destroy_closure(const tb_closure &closure, void *storage) noexcept;

// Queues the driver's own work: an object with a static `name`, the closure's `flags` and `tb_status run(const tb_closure_context *)`, which
// `construct` builds at the start of storage of `size` bytes.
template <class Stored, class Construct>
tb_status enqueue(Stream &stream, uint64_t size, Construct &&construct, uint64_t *out_end = nullptr) {
  static constexpr tb_closure closure = {
      sizeof(tb_closure), Stored::flags, Stored::name,
      [](void *storage, const tb_closure_context *context) { return static_cast<Stored *>(storage)->run(context); },
      [](void *storage) { static_cast<Stored *>(storage)->~Stored(); }};
  static_assert(noexcept(construct(nullptr)) && alignof(Stored) <= ClosureQueue::granule_bytes);
  void *storage = nullptr;
  uint64_t end = 0;
  if (const tb_status status = stream.reserve(size, &storage, end)) return status;
  construct(storage);
  stream.commit(storage, &closure);
  if (out_end) *out_end = end;
  return TB_OK;
}

template <class Work> tb_status enqueue(Stream &stream, Work &&work, uint64_t *out_end = nullptr) {
  using Stored = std::remove_cvref_t<Work>;
  static_assert(std::is_nothrow_move_constructible_v<Stored>);
  return enqueue<Stored>(
      stream, sizeof(Stored), [&](void *storage) noexcept { new (storage) Stored(std::forward<Work>(work)); }, out_end);
}

} // namespace tb::drivers::cpu
