// Sleeping on a 32-bit word, and the pause of a spin loop.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>

namespace tb::drivers {

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free,
              "the kernel reads the word behind the atomic");

// Sleeps while the word holds `expected`. May return early for any reason: callers look again.
inline void futex_wait(std::atomic<uint32_t> &word, uint32_t expected) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

// The same, for at most so long: false when that is over.
inline bool futex_wait_for(std::atomic<uint32_t> &word, uint32_t expected, const timespec &most) noexcept {
  return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &most, nullptr, 0) == 0 || errno != ETIMEDOUT;
}

inline void futex_wake_one(std::atomic<uint32_t> &word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

inline void futex_wake_all(std::atomic<uint32_t> &word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// The same between processes, for a word in shared memory.
inline void shared_futex_wait(std::atomic<uint32_t> &word, uint32_t expected, const timespec &most) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &most, nullptr, 0);
}
inline void shared_futex_wake_all(std::atomic<uint32_t> &word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Tells the core that this is a spin loop: saves power and leaves the other hyperthread room.
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory"); // `yield` is a no-op on most cores; isb waits about as long as x86's pause
#else
  asm volatile("" ::: "memory");
#endif
}

} // namespace tb::drivers
