// What went wrong in queued work, kept until one synchronise has told it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "tb/driver.h"

namespace tb::cpu {

// Shared by the stream where it happened and the streams that waited for that stream: whichever is asked first tells it.
struct Failure {
  tb_status status = TB_OK;
  char text[960] = "";
  std::atomic<bool> told{false};
  std::atomic<uint32_t> later{0}; // failures after this one, whose texts were dropped
};

// The first failure that was not told yet, and the position in the stream from which a synchronise covers it.
class FailureSlot {
public:
  // Any thread. Keeps the older of two untold failures.
  void keep(std::shared_ptr<Failure> failure, uint64_t position);
  // The failure that a wait for `position` covers, if there is one: still untold, still kept.
  std::shared_ptr<Failure> peek(uint64_t position);
  // Tells it through the host and forgets it. TB_OK when there is none.
  tb_status tell(uint64_t position, const tb_host *host);
  // Whether something may be kept. Without a lock; exact for failures before a position that has been seen done.
  bool maybe() const noexcept { return kept_.load(std::memory_order_acquire); }

private:
  std::atomic<bool> kept_{false};
  std::mutex mutex_;
  std::shared_ptr<Failure> failure_;
  uint64_t position_ = 0;
};

} // namespace tb::cpu
