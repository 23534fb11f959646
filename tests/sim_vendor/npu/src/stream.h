// stream.h -- a stream: a queue, and a thread that runs it, which the first task starts.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "acl.h"

namespace sim {

// The point in a stream at which an event was last recorded.
struct Point {
  std::atomic<int32_t> done{0};
  int64_t nanoseconds = 0; // the time when the stream passed it
  void pass();
  void wait() { done.wait(0); }
};

class [[gnu::visibility("default")]] Stream { // visible for the library of operators
public:
  using Task = std::function<Error()>; // a task that fails must call fail()
  explicit Stream(int32_t device);
  ~Stream(); // waits for all queued tasks
  Stream(const Stream &) = delete;

  // Injected faults do not affect bookkeeping: records, waits and host functions.
  void enqueue(Task task, bool bookkeeping = false);
  bool idle();
  // Waits for the tasks that were queued before the call. Returns the first failure since the last call, once.
  Error synchronize();
  const int32_t device, id;

private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  struct Queued {
    Task task;
    bool bookkeeping;
  };
  std::deque<Queued> tasks_;
  uint64_t queued_ = 0, done_ = 0;
  bool ending_ = false;
  Error failure_ = kOk;
  std::string failure_text_;
  std::thread thread_;
};

extern std::atomic<uint64_t> task_delay; // microseconds before each task
extern std::atomic<uint64_t> task_lag;   // microseconds after each task
Error task_fault_due();                  // the injected fault of the current task, or kOk

} // namespace sim
