// Keeps the failures of queued work and reports them.
#include "drivers/common/failure.h"

#include <algorithm>
#include <cstdio>

namespace tb::drivers {

bool Failure::came_before_report(uint64_t queue, uint64_t end) const noexcept {
  if (!reported_.load(std::memory_order_acquire)) return true;
  const auto known =
      std::find_if(tails_.begin(), tails_.end(), [&](const QueueTail &one) { return one.queue == queue; });
  return known != tails_.end() && end <= known->tail;
}

void Failure::set_report(std::vector<QueueTail> tails) noexcept {
  tails_ = std::move(tails);
  reported_.store(true, std::memory_order_release);
}

void FailureSlot::add(std::shared_ptr<Failure> failure, uint64_t position) {
  const auto reported = [](const Mark &mark) { return mark.failure->reported.load(); };
  if (marks_.size() >= most_reported)
    if (const auto oldest = std::find_if(marks_.begin(), marks_.end(), reported); oldest != marks_.end())
      marks_.erase(oldest);
  marks_.push_back({std::move(failure), position});
  active_.store(true, std::memory_order_release);
}

void FailureSlot::keep(std::shared_ptr<Failure> failure, uint64_t position) {
  std::lock_guard lock(mutex_);
  for (const Mark &mark : marks_)
    if (!mark.failure->reported.load()) {
      if (mark.failure != failure) mark.failure->later.fetch_add(1);
      return;
    }
  add(std::move(failure), position);
}

void FailureSlot::inherit(FailureSlot &source, uint64_t position, uint64_t queue, uint64_t end) {
  std::vector<std::shared_ptr<Failure>> taken;
  {
    std::lock_guard lock(source.mutex_);
    for (const Mark &mark : source.marks_)
      if (mark.position <= position && mark.failure->came_before_report(queue, end)) taken.push_back(mark.failure);
  }
  if (taken.empty()) return;
  std::lock_guard lock(mutex_);
  for (std::shared_ptr<Failure> &failure : taken) {
    const auto same = [&](const Mark &mark) { return mark.failure == failure; };
    if (std::find_if(marks_.begin(), marks_.end(), same) == marks_.end()) add(std::move(failure), end);
  }
}

std::shared_ptr<Failure> FailureSlot::peek(uint64_t position) {
  if (!maybe()) return nullptr;
  std::lock_guard lock(mutex_);
  for (const Mark &mark : marks_)
    if (mark.position <= position && !mark.failure->reported.load()) return mark.failure;
  return nullptr;
}

// Returns the failure that the caller reports, or NULL.
std::shared_ptr<Failure> FailureSlot::take(uint64_t position, QueueTails &queues) {
  while (std::shared_ptr<Failure> failure = peek(position)) {
    std::vector<QueueTail> tails = queues.tails(); // first, since it may throw
    if (failure->reported.exchange(true)) continue;
    failure->set_report(std::move(tails));
    return failure;
  }
  return nullptr;
}

void FailureSlot::forget(QueueTails &queues) {
  while (take(UINT64_MAX, queues)) {
  }
}

tb_status FailureSlot::report(uint64_t position, const tb_host *host, QueueTails &queues) {
  const std::shared_ptr<Failure> failure = take(position, queues);
  if (!failure) return TB_OK;
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

bool FailureSlot::look(uint64_t queue, uint64_t end) {
  std::lock_guard lock(mutex_);
  // Work runs in order: what is queued behind this piece comes after the reports too.
  bool after_all = true;
  for (const Mark &mark : marks_) {
    if (!mark.failure->came_before_report(queue, end)) continue;
    after_all = false;
    if (mark.position <= end) return true;
  }
  if (after_all) active_.store(false, std::memory_order_release);
  return false;
}

} // namespace tb::drivers
