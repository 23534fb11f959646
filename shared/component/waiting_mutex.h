// waiting_mutex.h -- a mutex whose holder may wait for the device.
//
// Queued work may need the GIL. A thread that waited for such a mutex with the GIL held would block the work that the
// mutex's holder waits for, and the holder itself, which takes the GIL back after its wait. lock() therefore releases
// the GIL before it waits.
#pragma once

#include <mutex>

#include "host.h"

namespace tb {

class WaitingMutex {
public:
  void lock() {
    if (mutex_.try_lock()) [[likely]]
      return;
    void *given_up = host.before_wait ? host.before_wait() : nullptr;
    mutex_.lock();
    if (given_up) host.after_wait(given_up);
  }
  void unlock() { mutex_.unlock(); }

private:
  std::mutex mutex_;
};

} // namespace tb
