// A failure of queued work, kept until one synchronise reports it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "tb/driver.h"

namespace tb::drivers {

// Shared by the stream where it happened and the streams that waited for that stream. The first of them that is asked
// reports it.
struct Failure {
  tb_status status = TB_OK;
  char text[960] = "";
  std::atomic<bool> reported{false};
  std::atomic<uint32_t> later{0}; // later failures, whose texts were dropped
};

// The first failure that is not reported yet, and the position in the stream from which a synchronise covers it.
class FailureSlot {
public:
  // Thread-safe. Keeps the older of two unreported failures.
  void keep(std::shared_ptr<Failure> failure, uint64_t position);
  // The failure that a wait for `position` covers, or NULL. The failure stays kept and unreported.
  std::shared_ptr<Failure> peek(uint64_t position);
  // Reports the failure through the host and forgets it. TB_OK when there is none.
  tb_status report(uint64_t position, const tb_host *host);
  // Whether a failure may be kept. Takes no lock; exact for failures before a position that is known to be done.
  bool maybe() const noexcept { return kept_.load(std::memory_order_acquire); }

private:
  std::atomic<bool> kept_{false};
  std::mutex mutex_;
  std::shared_ptr<Failure> failure_;
  uint64_t position_ = 0;
};

} // namespace tb::drivers
