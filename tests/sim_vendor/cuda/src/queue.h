// queue.h -- the queue of one stream, whose own thread runs the operations one after another.
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

// Gets the failure of its context, if there is one, and returns its own. Most operations do nothing after a failure.
using Operation = std::function<CUresult(CUresult failed)>;

class Queue : public std::enable_shared_from_this<Queue> {
public:
  explicit Queue(Context &context) : context_(context) {}
  ~Queue() { join(); }
  // Queues an operation and returns its number, counted from 1. The first one starts the thread.
  // `kernel`: the operation may access device memory, which stays accessible while such operations follow each other.
  uint64_t push(Operation operation, bool kernel = false);
  uint64_t last(); // the number of the last operation; 0 if there is none
  bool done(uint64_t number);
  void wait(uint64_t number);
  // No operation may be pushed afterwards. The thread ends when all operations are done.
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

// A point in a queue, and the time when the queue passed it.
struct Record {
  std::shared_ptr<Queue> queue;
  uint64_t number = 0;
  std::shared_ptr<std::atomic<int64_t>> when; // nanoseconds of the steady clock
};

} // namespace simcuda
