// Runs the replay driver's work in order, and allocates its memory.
#include "layers/trace/replay_work.h"

#include <sys/mman.h>

namespace tb::layers {

InOrder::~InOrder() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void InOrder::add(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void InOrder::wait() {
  if (std::this_thread::get_id() == thread_.get_id()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
}

void InOrder::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    work();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

HostMemory::~HostMemory() {
  for (const auto &[base, size] : sizes_) munmap(base, size);
}

void *HostMemory::allocate(uint64_t size) {
  if (size > uint64_t{1} << 46) return nullptr; // more than there are addresses
  const uint64_t bytes = size ? size : 1;
  void *base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  std::lock_guard lock(mutex_);
  sizes_[base] = bytes;
  return base;
}

void HostMemory::free(void *base) {
  std::lock_guard lock(mutex_);
  const auto found = sizes_.find(base);
  if (found == sizes_.end()) return;
  munmap(base, found->second);
  sizes_.erase(found);
}

} // namespace tb::layers
