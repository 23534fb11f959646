// clock.h -- the processor time of the thread, so that other load on the machine makes no plan worse.
#pragma once

#include <time.h>

#include <chrono>

namespace tb::allocator {

struct Clock {
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<Clock, duration>;
  static time_point now() noexcept {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time_point(std::chrono::seconds(time.tv_sec) + duration(time.tv_nsec));
  }
  static duration seconds(double value) {
    return std::chrono::duration_cast<duration>(std::chrono::duration<double>(value));
  }
};

} // namespace tb::allocator
