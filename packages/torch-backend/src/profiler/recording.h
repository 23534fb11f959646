// recording.h -- what tb-stream records for one session of the profiler.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tb/component.h"

namespace tb::backend {

class Recording {
public:
  Recording() = default;
  Recording(const Recording &) = delete;
  ~Recording();

  // Goes on with the recording. Throws if the process is ending.
  void start();
  // Ends or pauses it, when all that was queued has run. A failure of that work is reported as a warning, and not
  // raised, since the caller is PyTorch's profiler in the middle of its own end. PyTorch has waited for the current device
  // before, where failures are raised.
  void stop();

  // In the order of the calls. Times are those of the steady clock.
  const std::vector<tb_record> &records() const { return records_; }
  // Nanoseconds since 1970 of a time of the steady clock, measured at the last stop.
  int64_t unix_time(int64_t steady) const { return steady + since_1970_; }

private:
  tb_recording *recording_ = nullptr;
  std::vector<tb_record> records_;
  int64_t since_1970_ = 0;
};

} // namespace tb::backend
