// at::parallel_for on the threads that the calling one has, and the cut of a range into parts.
#pragma once
#include <ATen/Parallel.h>

#include <cstdint>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace tb::ops {

// Tells ThreadSanitizer how OpenMP's threads wait for each other, which it does not see.
class Barrier {
public:
#ifdef __SANITIZE_THREAD__
  void pass() { __tsan_acquire(this); }
  void reach() { __tsan_release(this); }
#else
  void pass() {}
  void reach() {}
#endif
};

template <class Loop> void parallel_for(int64_t begin, int64_t end, int64_t grain, const Loop &loop) {
  Barrier fork, join;
  fork.reach();
  at::parallel_for(begin, end, grain, [&](int64_t first, int64_t last) {
    fork.pass();
    loop(first, last);
    join.reach();
  });
  join.pass();
}

// Where part i of `parts` begins if `count` is cut at multiples of `multiple`: 0 for the first part, count for the one past
// the last.
inline int64_t begin_of_part(int64_t i, int64_t parts, int64_t count, int64_t multiple) {
  return i == parts ? count : count / multiple * i / parts * multiple;
}

} // namespace tb::ops
