// stream.h -- a stream: a queue, and from its first task on a thread that runs it.
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

// The place in a stream that an event stands for since its last record.
struct Point {
  std::atomic<int32_t> done{0};
  int64_t nanoseconds = 0; // when it was passed
  void pass();
  void wait() { done.wait(0); }
};

class [[gnu::visibility("default")]] Stream { // as Memory
public:
  using Task = std::function<Error()>; // a failing one has called fail()
  explicit Stream(int32_t device);
  ~Stream(); // runs what is queued
  Stream(const Stream &) = delete;

  // Bookkeeping (records, waits, host functions) never fails by an injected fault.
  void enqueue(Task task, bool bookkeeping = false);
  bool idle();
  // Waits for what was queued before the call. Reports the first failure since the last call, once.
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
extern std::atomic<uint64_t> task_lag;   // and after it
Error task_fault_due();                  // an injected fault of a task

} // namespace sim
