// Starts, runs and ends the worker thread of a stream.
#include "drivers/cpu/stream/stream.h"

#include <pthread.h>
#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <system_error>

#include "drivers/common/error_text.h"
#include "drivers/common/host_wait.h"
#include "drivers/common/signals.h"
#include "drivers/cpu/device/device.h"
#include "drivers/cpu/stream/capture.h"

namespace tb::drivers::cpu {

namespace {

thread_local Stream *running_stream = nullptr;

// Whether queued work can fail with this status. One that only queries return, or an unknown one, must not come out of
// a synchronise.
bool is_failure(tb_status status) {
  return (status >= TB_CANCELLED && status <= TB_DATA_LOSS) || status == TB_DEVICE_LOST;
}

} // namespace

Stream *Stream::running() noexcept { return running_stream; }

tb_status Stream::reserve(uint64_t size, void **out, uint64_t &end) {
  if (size > ClosureQueue::largest) [[unlikely]]
    return fail(device_.host(), TB_OUT_OF_RANGE, "a closure of %llu bytes is larger than half the queue, %llu bytes",
                static_cast<unsigned long long>(size), static_cast<unsigned long long>(ClosureQueue::largest));
  if (capturing()) [[unlikely]] {
    tb_status status = TB_OK;
    if (const auto capture = this->capture(); capture && capture->reserve(*this, size, out, &status)) return status;
  }
  if (!queue_.has_memory()) [[unlikely]] {
    if (const tb_status status = start()) return status;
  }
  void *storage = queue_.reserve(size, false, device_.spin_for_room(), waiting_, end);
  if (!storage) [[unlikely]] {
    if (running_stream == this)
      return fail(device_.host(), TB_FAILED_PRECONDITION,
                  "the stream's queue is full, and the call comes from work of this very stream, which cannot wait for "
                  "itself. Queue less from inside the work, or on another stream");
    const HostWait waiting(device_.host());
    storage = queue_.reserve(size, true, device_.spin_for_room(), waiting_, end);
  }
  *out = storage;
  return TB_OK;
}

tb_status Stream::start() {
  std::lock_guard lock(start_mutex_);
  if (queue_.has_memory()) return TB_OK;
  std::byte *memory = ClosureQueue::map_memory();
  if (!memory)
    return fail_native(device_.host(), TB_OUT_OF_MEMORY, errno, "the system gives no memory for the stream's queue");
  try {
    SignalsBlocked blocked;
    worker_ = std::thread([this] { work(); });
  } catch (const std::system_error &error) {
    ClosureQueue::unmap_memory(memory);
    return fail_native(device_.host(), TB_UNAVAILABLE, error.code().value(),
                       "the system gives no thread for the stream's worker (%s). Use fewer streams or raise the limit "
                       "of threads (ulimit -u)",
                       error.code().message().c_str());
  }
  started_.store(true);
  queue_.use_memory(memory);
  return TB_OK;
}

void Stream::work() {
  {
    std::lock_guard lock(start_mutex_);
  } // until start() has set everything up
  running_stream = this;
  char name[16];
  std::snprintf(name, sizeof name, "tb-cpu-%d", device_.number());
  pthread_setname_np(pthread_self(), name);
  // A hint: raising a thread above the others needs a privilege, and without it all streams are equal.
  if (priority_ < 0) setpriority(PRIO_PROCESS, 0, 5 * priority_);

  char error_text[error_capacity];
  tb_closure_context context = make_context(error_text);
  while (ClosureQueue::Entry *entry = queue_.next(device_.spin())) run_entry(*entry, context);
  running_stream = nullptr;
  drained_.store(true);
}

tb_closure_context Stream::make_context(char *error_text) noexcept {
  tb_closure_context context = {};
  context.struct_size = sizeof context;
  context.device = device_.number();
  context.stream = handle();
  context.error_text = error_text;
  context.error_capacity = error_capacity;
  context.next = &next_queued;
  return context;
}

void Stream::run_entry(ClosureQueue::Entry &entry, tb_closure_context &context) {
  if (entry.state.load(std::memory_order_relaxed) == ClosureQueue::ready) {
    running_end_ = queue_.end_of(entry);
    running_ = &entry;
    run_closure(*entry.closure, queue_.storage(entry), context);
    destroy_closure(*entry.closure, queue_.storage(entry));
  }
  queue_.finish(entry);
}

void Stream::run_as_waiter(uint64_t position) {
  Stream *const outer = std::exchange(running_stream, this);
  char error_text[error_capacity];
  tb_closure_context context = make_context(error_text);
  context.on_waiter = 1;
  uint64_t ran = 0;
  for (; !queue_.done(position); ++ran) {
    ClosureQueue::Entry *entry = queue_.committed();
    if (!entry) break; // another thread is about to commit it
    if (entry->state.load(std::memory_order_relaxed) == ClosureQueue::ready &&
        !(entry->closure->flags & TB_CLOSURE_ON_WAITER))
      break;
    run_entry(*entry, context);
  }
  device_.run_by_waiters().fetch_add(ran, std::memory_order_relaxed);
  running_stream = outer;
}

void Stream::wait_or_run(uint64_t position, uint32_t spin) {
  if (queue_.done(position)) return;
  constexpr auto long_wait = std::chrono::milliseconds(5);
  const auto started = std::chrono::steady_clock::now();
  if (queue_.take_head(position, spin)) {
    run_as_waiter(position);
    queue_.return_head();
  }
  queue_.wait(position, spin);
  if (std::chrono::steady_clock::now() - started > long_wait) queue_.waited_long();
}

void Stream::run_closure(const tb_closure &closure, void *storage, tb_closure_context &context, bool in_graph) {
  if (failures_.leaves_out(native_, running_end_) && !(closure.flags & TB_CLOSURE_AFTER_FAILURE)) return;
  context.waiters = in_graph
                        ? UINT32_MAX
                        : waiting_.load(std::memory_order_relaxed) + device_.waiting().load(std::memory_order_relaxed);
  context.error_text[0] = 0;
  tb_status status;
  try {
    status = closure.run(storage, &context);
  } catch (const std::bad_alloc &) {
    status = TB_OUT_OF_MEMORY;
    std::snprintf(context.error_text, context.error_capacity, "out of host memory");
  } catch (const std::exception &error) {
    status = TB_UNKNOWN;
    std::snprintf(context.error_text, context.error_capacity, "%s", error.what());
  } catch (...) {
    status = TB_UNKNOWN;
    std::snprintf(context.error_text, context.error_capacity, "an exception of unknown type");
  }
  if (status == TB_OK) [[likely]]
    return;
  try {
    if (!spare_) spare_ = std::make_shared<Failure>();
    spare_->status = is_failure(status) ? status : static_cast<tb_status>(TB_UNKNOWN);
    context.error_text[context.error_capacity - 1] = 0;
    if (context.error_text[0]) {
      std::snprintf(spare_->text, sizeof spare_->text, "%.60s: %s", closure.name, context.error_text);
    } else {
      std::snprintf(spare_->text, sizeof spare_->text, "%.60s: failed with status %d and no text", closure.name,
                    status);
    }
    failures_.keep(std::move(spare_), running_end_);
    spare_ = std::make_shared<Failure>();
  } catch (const std::bad_alloc &) {
    spare_ = nullptr;
  }
}

const tb_closure *Stream::next_queued(const tb_closure_context *context, void **storage) noexcept {
  const Stream &stream = *Stream::of(context->stream);
  const ClosureQueue::Entry *entry =
      *storage ? stream.queue_.following(*storage) : stream.queue_.following(*stream.running_);
  if (!entry) return nullptr;
  *storage = stream.queue_.storage(*entry);
  return entry->closure;
}

void destroy_closure(const tb_closure &closure, void *storage) noexcept {
  try {
    closure.destroy(storage);
  } catch (...) {
  }
}

std::shared_ptr<Capture> Stream::capture() {
  if (!capturing()) return nullptr;
  std::lock_guard lock(capture_mutex_);
  return capture_;
}

bool Stream::start_capture(std::shared_ptr<Capture> capture) {
  std::lock_guard lock(capture_mutex_);
  if (capture_) return false;
  capture_ = std::move(capture);
  capturing_.store(true, std::memory_order_release);
  return true;
}

void Stream::stop_capture() noexcept {
  std::lock_guard lock(capture_mutex_);
  capturing_.store(false, std::memory_order_release);
  capture_ = nullptr; // the caller holds it too
}

bool Stream::commit_captured(void *storage, const tb_closure *closure) {
  const auto capture = this->capture();
  return capture && capture->commit(storage, closure);
}

bool Stream::cancel(void *storage) {
  if (!queue_.owns(storage)) {
    const auto capture = this->capture();
    return capture && capture->cancel(storage);
  }
  queue_.cancel(storage);
  return true;
}

tb_status Stream::synchronize(uint64_t position, uint32_t spin) {
  if (!queue_.done(position)) {
    if (running_stream == this)
      return fail(device_.host(), TB_FAILED_PRECONDITION,
                  "work of a stream cannot wait for its own stream: it would wait for itself");
    waiting_.fetch_add(1, std::memory_order_relaxed);
    wait_or_run(position, spin);
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  return failures_.report(position, device_.host(), device_.tails());
}

tb_status Stream::query(uint64_t position) {
  // A failure is reported only once the position is reached, so that every answer but TB_NOT_READY means "done".
  if (queue_.done(position)) return failures_.report(position, device_.host(), device_.tails());
  queue_.expect_progress();
  return TB_NOT_READY;
}

void Stream::wait_for(uint64_t position) noexcept { queue_.wait(position, device_.spin()); }

void Stream::join() {
  if (worker_.joinable()) worker_.join();
  queue_.release_memory();
}

} // namespace tb::drivers::cpu
