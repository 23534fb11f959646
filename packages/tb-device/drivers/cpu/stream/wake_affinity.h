// Chooses the processor on which a sleeping thread wakes up.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace tb::drivers::cpu {

// Excludes a processor from those of a thread (0: the calling one), unless none would be left. `before`: what to restore.
inline bool exclude_processor(pid_t thread, int processor, cpu_set_t &before) noexcept {
  if (processor < 0 || sched_getaffinity(thread, sizeof before, &before) != 0) return false;
  cpu_set_t others = before;
  CPU_CLR(static_cast<unsigned>(processor), &others);
  const int count = CPU_COUNT(&others);
  return count > 0 && count < CPU_COUNT(&before) && sched_setaffinity(thread, sizeof others, &others) == 0;
}

// Moves the calling thread away from a processor if it is there. Where it may run later is left as it was.
inline void leave_processor(int processor) noexcept {
  cpu_set_t before;
  if (sched_getcpu() == processor && exclude_processor(0, processor, before))
    sched_setaffinity(0, sizeof before, &before);
}

// While it lives, a sleeping thread may not run on the calling thread's processor, so a wake-up puts it on another one.
// A scheduler may otherwise wake it where the caller goes on working, and leave both there for milliseconds. The
// destructor restores the thread's affinity. Nothing happens without the right to set it, or without another processor.
class WakeAffinity {
public:
  explicit WakeAffinity(pid_t thread) noexcept : thread_(thread) {
    under_way_.fetch_add(1, std::memory_order_relaxed); // before the thread is woken, which is a system call
    restricted_ = thread != 0 && exclude_processor(thread, sched_getcpu(), before_);
  }
  ~WakeAffinity() {
    if (restricted_) sched_setaffinity(thread_, sizeof before_, &before_);
    under_way_.fetch_sub(1, std::memory_order_release);
  }
  WakeAffinity(const WakeAffinity &) = delete;
  WakeAffinity &operator=(const WakeAffinity &) = delete;

  // Called by the woken thread: returns when no thread is restricted any more, which takes a system call. The wait has
  // a limit, because a process that is forked meanwhile has the count and not the thread.
  static void wait_until_over() noexcept {
    for (int i = 0; i < 1000 && under_way_.load(std::memory_order_acquire) != 0; ++i) sched_yield();
  }

private:
  static inline std::atomic<uint32_t> under_way_{0};

  const pid_t thread_;
  cpu_set_t before_;
  bool restricted_ = false;
};

} // namespace tb::drivers::cpu
