// queue.cpp -- the thread of a stream.
#include "queue.h"

#include <optional>

#include "world.h"

namespace simcuda {

uint64_t Queue::push(Operation operation, bool kernel) {
  std::lock_guard lock(mutex_);
  operations_.push_back({std::move(operation), kernel});
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
  return ++pushed_;
}

uint64_t Queue::last() {
  std::lock_guard lock(mutex_);
  return pushed_;
}

bool Queue::done(uint64_t number) {
  std::lock_guard lock(mutex_);
  return completed_ >= number;
}

void Queue::wait(uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_ >= number; });
}

void Queue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  if (!thread_.joinable()) ended_ = true;
  changed_.notify_all();
}

void Queue::join() {
  close();
  if (thread_.joinable()) thread_.join();
}

bool Queue::ended() {
  std::lock_guard lock(mutex_);
  return ended_;
}

void Queue::run() {
  std::optional<Window> window; // consecutive kernels share one, since opening and closing touches all pages in use
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !operations_.empty() || closed_; });
    if (operations_.empty()) break;
    {
      const Item item = std::move(operations_.front());
      operations_.pop_front();
      lock.unlock();
      if (item.kernel && !window) window.emplace();
      const CUresult result = item.operation(context_.failed);
      if (result != CUDA_SUCCESS) {
        CUresult none = CUDA_SUCCESS;
        context_.failed.compare_exchange_strong(none, result);
      }
    } // the operation's objects are destroyed before it counts as done
    lock.lock();
    const bool more = !operations_.empty() && operations_.front().kernel;
    if (window && !more) { // the window is closed before the last kernel counts as done
      lock.unlock();
      window.reset();
      lock.lock();
    }
    ++completed_;
    changed_.notify_all();
  }
  ended_ = true;
}

} // namespace simcuda
