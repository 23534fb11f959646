// On which processor a thread that sleeps wakes up.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace tb::drivers::cpu {

// While it lives, a thread that sleeps may not run on the calling thread's processor: woken meanwhile, it begins on
// another. A scheduler may else wake it here, where the caller goes on working, and leave both here for milliseconds.
// What it might run on is as before afterwards. Without rights to do so, or another processor, nothing happens.
class Elsewhere {
public:
  explicit Elsewhere(pid_t thread) noexcept : thread_(thread) {
    under_way_.fetch_add(1, std::memory_order_relaxed); // before the thread is woken, which is a system call
    const int here = sched_getcpu();
    if (here < 0 || thread == 0 || sched_getaffinity(thread, sizeof before_, &before_) != 0) return;
    cpu_set_t others = before_;
    CPU_CLR(static_cast<unsigned>(here), &others);
    const int count = CPU_COUNT(&others);
    barred_ = count > 0 && count < CPU_COUNT(&before_) && sched_setaffinity(thread, sizeof others, &others) == 0;
  }
  ~Elsewhere() {
    if (barred_) sched_setaffinity(thread_, sizeof before_, &before_);
    under_way_.fetch_sub(1, std::memory_order_release);
  }
  Elsewhere(const Elsewhere &) = delete;
  Elsewhere &operator=(const Elsewhere &) = delete;

  // For the thread that was woken: until nobody is barred, which is a matter of a system call. Not for ever: a process
  // that was forked meanwhile has the count and not the thread.
  static void wait_until_over() noexcept {
    for (int i = 0; i < 1000 && under_way_.load(std::memory_order_acquire) != 0; ++i) sched_yield();
  }

private:
  static inline std::atomic<uint32_t> under_way_{0};

  const pid_t thread_;
  cpu_set_t before_;
  bool barred_ = false;
};

} // namespace tb::drivers::cpu
