// Streams are in-order command queues.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "opencl/event.h"
#include "streams/kernel_failures.h"

namespace tb::opencl {

struct Capture;

// How many captured steps of each stream come before a point.
using Seen = std::map<const tb_stream *, uint64_t>;

// What an event recorded on a capturing stream stands for; `capture` is null for others.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  Seen seen;
};

// A place in a stream: the event of the last command before it, and the launches whose failures it covers.
struct Point {
  Event event;
  Covers covers;
};

// What became of a point: TB_OK, TB_NOT_READY, or the failure of work before it, which is then reported.
tb_status settle(const tb_host *host, const Functions &cl, const Point &point, bool wait);

bool done_without_failure(const Point &point);

// Runs functions of the host in the order of one stream, on a thread of its own.
class HostCalls {
public:
  struct Call {
    Event before, after; // `after` is a user event for which the stream waits
    Covers covers;
    void (*function)(void *, tb_status);
    void *user;
  };

  explicit HostCalls(const Functions &cl) : cl_(cl), thread_([this] { run(); }) {}
  ~HostCalls() { thread_.join(); }
  void add(Call call);
  // The thread ends when all calls are done.
  void stop();
  bool ended() const { return ended_; }

private:
  void run();

  const Functions &cl_;
  std::atomic<bool> ended_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Call> calls_;
  bool stopped_ = false;
  std::thread thread_; // the last member, since it uses the others
};

} // namespace tb::opencl

struct tb_stream {
  tb_driver *driver = nullptr;
  int32_t device = 0;
  bool borrowed = false; // a device's default stream
  tb::opencl::cl_command_queue queue = nullptr;

  std::mutex mutex;          // of what follows, and of the order of commands and their numbers
  bool shared_queue = false; // others have the queue too, so `last` does not tell all
  tb::opencl::Event last;    // of the newest command
  uint64_t launches = 0;     // number of the newest launch
  std::shared_ptr<tb::opencl::FailureWord> word;
  std::vector<tb::opencl::Point> inherited;          // what the stream waited for, and may still fail
  std::unique_ptr<tb::opencl::HostCalls> host_calls; // made by the first

  std::atomic<bool> captures{false};            // changes with the mutex of Captures held, as the next
  std::shared_ptr<tb::opencl::Capture> capture; // in which the stream takes part

  // With the mutex held, after a command was queued.
  void note(const tb::opencl::Functions &cl, tb::opencl::cl_event event) { last = tb::opencl::Event(cl, event); }
  // With the mutex held.
  tb::opencl::Point point() const {
    tb::opencl::Point out{last, {}};
    out.covers.add({word, launches});
    for (const tb::opencl::Point &point : inherited) out.covers.add(point.covers);
    return out;
  }
  // Keeps what the stream waits for, and forgets what is done. With the mutex held.
  void inherit(const tb::opencl::Point &point);
};

struct tb_event {
  tb_driver *driver = nullptr;
  int32_t device = 0;
  uint64_t flags = 0;
  std::mutex mutex;
  tb::opencl::Point point;
  tb::opencl::CapturedPoint captured;

  tb::opencl::Point current() {
    const std::lock_guard lock(mutex);
    return point;
  }
  tb::opencl::CapturedPoint in_capture() {
    const std::lock_guard lock(mutex);
    return captured;
  }
};
