// heap_lock.h -- a heap's lock together with the threads' caches whose counts have to be told first.
#pragma once

#include "heap/heap.h"

namespace tb::allocator {

// All caches of a heap at rest and told, and `lock_` held. The holder may have growth_, and no other lock.
class Claim {
public:
  explicit Claim(Heap &heap);
  ~Claim();
  Claim(const Claim &) = delete;
  Claim &operator=(const Claim &) = delete;

private:
  Heap &heap_;
};

// `lock_`, with the counts of this thread told: a peak is one of sums. mine: its cache of the heap, or NULL.
class Guard {
public:
  Guard(Heap &heap, ThreadCache *mine) : heap_(heap) {
    bool untold = mine && mine->untold.load(std::memory_order_relaxed);
    if (untold) mine->lock.lock();
    heap_.lock_.lock();
    if (!untold) return;
    heap_.settle(*mine);
    mine->lock.unlock();
  }
  ~Guard() { heap_.lock_.unlock(); }
  Guard(const Guard &) = delete;
  Guard &operator=(const Guard &) = delete;

private:
  Heap &heap_;
};

} // namespace tb::allocator
