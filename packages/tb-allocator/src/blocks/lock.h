// lock.h -- a lock for sections of some ten nanoseconds: one atomic exchange to enter, one plain store to leave.
//
// Leaving a std::mutex costs another exchange, which is a tenth of a cached allocation. Without that exchange no waiter
// can be woken. So a waiter spins, because the holder nearly always leaves at once; then it yields its core, because
// the holder may need it; then it sleeps for short times. The holder must not block: driver calls that allocate, free
// or wait are made without the lock.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace tb::allocator {

class Lock {
public:
  void lock() noexcept {
    if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

private:
  static constexpr int spins = 100; // as long as a few sections
  static constexpr int yields = 20; // for a holder that was suspended: on a free core it runs again by then
  static constexpr std::chrono::microseconds nap{50};

  [[gnu::noinline]] void wait() noexcept {
    for (int turn = 0;; ++turn) {
      if (!taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire)) return;
      if (turn < spins) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
      } else if (turn < spins + yields) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(nap);
      }
    }
  }

  std::atomic<bool> taken_{false};
};

} // namespace tb::allocator
