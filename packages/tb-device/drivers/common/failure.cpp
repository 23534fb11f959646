// Keeps the failures of queued work and reports them.
#include "drivers/common/failure.h"

#include <cstdio>

namespace tb::drivers {

void FailureSlot::keep(std::shared_ptr<Failure> failure, uint64_t position) {
  std::lock_guard lock(mutex_);
  if (failure_ && !failure_->reported.load()) {
    if (failure_ != failure) failure_->later.fetch_add(1);
    return;
  }
  failure_ = std::move(failure);
  position_ = position;
  kept_.store(true, std::memory_order_release);
}

std::shared_ptr<Failure> FailureSlot::peek(uint64_t position) {
  if (!maybe()) return nullptr;
  std::lock_guard lock(mutex_);
  return failure_ && position_ <= position && !failure_->reported.load() ? failure_ : nullptr;
}

tb_status FailureSlot::report(uint64_t position, const tb_host *host) {
  if (!maybe()) return TB_OK;
  std::shared_ptr<Failure> failure;
  {
    std::lock_guard lock(mutex_);
    if (!failure_ || position_ > position) return TB_OK;
    failure = std::move(failure_);
    failure_ = nullptr;
    kept_.store(false, std::memory_order_release);
  }
  if (failure->reported.exchange(true)) return TB_OK;
  const uint32_t later = failure->later.load();
  if (later == 0) {
    host->set_error(failure->status, 0, failure->text);
  } else {
    char text[sizeof failure->text + 64];
    std::snprintf(text, sizeof text, "%s (and %u later failure%s on this stream)", failure->text, later,
                  later == 1 ? "" : "s");
    host->set_error(failure->status, 0, text);
  }
  return failure->status;
}

} // namespace tb::drivers
