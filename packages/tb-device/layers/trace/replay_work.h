// The memory and the thread of the replay driver.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace tb::layers {

// Runs work in order on its own thread.
class InOrder {
public:
  InOrder() : thread_([this] { run(); }) {}
  ~InOrder();
  InOrder(const InOrder &) = delete;
  void add(std::function<void()> work);
  void wait(); // for everything added so far; returns at once on the thread itself

private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, ending_ = false;
  std::thread thread_; // last: it uses the others
};

// Address ranges that get memory when they are touched, so that large reservations cost nothing.
class HostMemory {
public:
  ~HostMemory();
  void *allocate(uint64_t size); // NULL: there is none
  void free(void *base);

private:
  std::mutex mutex_;
  std::map<void *, uint64_t> sizes_;
};

} // namespace tb::layers
