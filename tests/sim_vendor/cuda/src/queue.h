// queue.h -- the order of one stream: operations that a thread of its own runs one after another.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "cuda_api.h"

namespace simcuda {

using namespace tb::drivers::cuda;

struct Context;

// Gets the failure that its context has already, and gives its own. Most do nothing after a failure.
using Operation = std::function<CUresult(CUresult failed)>;

class Queue : public std::enable_shared_from_this<Queue> {
public:
  explicit Queue(Context &context) : context_(context) {}
  ~Queue() { join(); }
  // Returns its number; they count from 1. The thread starts with the first.
  // `kernel`: it may touch device memory, which stays open while such operations follow each other.
  uint64_t push(Operation operation, bool kernel = false);
  uint64_t last(); // 0 if none
  bool done(uint64_t number);
  void wait(uint64_t number); // sleeps
  // Takes no more; the thread ends when all is done.
  void close();
  void join();
  bool ended();
  Context &context() { return context_; }

private:
  struct Item {
    Operation operation;
    bool kernel;
  };
  void run();
  Context &context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> operations_;
  uint64_t pushed_ = 0, completed_ = 0;
  bool closed_ = false, ended_ = false;
  std::thread thread_;
};

// A point in a queue's order, and when it was passed.
struct Record {
  std::shared_ptr<Queue> queue;
  uint64_t number = 0;
  std::shared_ptr<std::atomic<int64_t>> when; // steady nanoseconds
};

} // namespace simcuda
