// lock.h -- a mutex for sections of some ten nanoseconds: one word, one atomic exchange each way when nobody waits.
//
// std::mutex costs two library calls more on the path that every allocation takes. A waiter spins briefly, because the
// holder is nearly always just about to leave, then sleeps on a futex (std::atomic::wait), because it may be suspended.
// Nothing that can block happens under it: driver calls that allocate, free or wait are made without it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tb {

class Lock {
public:
  void lock() noexcept {
    uint32_t expected = open;
    if (!state_.compare_exchange_strong(expected, taken, std::memory_order_acquire, std::memory_order_relaxed))
        [[unlikely]]
      wait();
  }
  void unlock() noexcept {
    if (state_.exchange(open, std::memory_order_release) == awaited) [[unlikely]]
      state_.notify_one();
  }

private:
  enum : uint32_t { open, taken, awaited };
  static constexpr int spins = 100; // about the length of one section, some 100 ns

  [[gnu::noinline]] void wait() noexcept {
    for (int i = 0; i < spins; ++i) {
      uint32_t expected = open;
      if (state_.load(std::memory_order_relaxed) == open &&
          state_.compare_exchange_weak(expected, taken, std::memory_order_acquire, std::memory_order_relaxed))
        return;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
    while (state_.exchange(awaited, std::memory_order_acquire) != open) state_.wait(awaited, std::memory_order_relaxed);
  }

  std::atomic<uint32_t> state_{open};
};

} // namespace tb
