// stream.cpp -- queues and their threads.
#include "stream.h"

#include <chrono>

#include "entry.h"

namespace sim {
namespace {
std::atomic<int32_t> next_id{1};
}

const char *aclGetRecentErrMsg();
std::atomic<uint64_t> task_delay{0}, task_lag{0};

void Point::pass() {
  nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  done = 1;
  done.notify_all();
}

Stream::Stream(int32_t device) : device(device), id(next_id++) {}

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Stream::enqueue(Task task, bool bookkeeping) {
  std::lock_guard lock(mutex_);
  tasks_.push_back({std::move(task), bookkeeping});
  ++queued_;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

bool Stream::idle() {
  std::lock_guard lock(mutex_);
  return done_ == queued_;
}

Error Stream::synchronize() {
  std::unique_lock lock(mutex_);
  const uint64_t until = queued_;
  changed_.wait(lock, [&] { return done_ >= until; });
  if (!failure_) return kOk;
  const Error error = failure_;
  failure_ = kOk;
  return fail(error, "%s", failure_text_.c_str());
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Queued next = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    if (const uint64_t delay = task_delay) std::this_thread::sleep_for(std::chrono::microseconds(delay));
    Error error = next.bookkeeping ? kOk : task_fault_due();
    if (error)
      fail(error, "EZ9999: injected fault of a task of stream %d", id);
    else
      error = next.task();
    if (const uint64_t lag = task_lag) std::this_thread::sleep_for(std::chrono::microseconds(lag));
    next.task = nullptr; // destroys the task's objects before anyone is notified
    lock.lock();
    if (error && !failure_) {
      failure_ = error;
      const char *text = aclGetRecentErrMsg();
      failure_text_ = text ? text : "a task failed";
    }
    ++done_;
    changed_.notify_all();
  }
}

} // namespace sim
