// history.cpp -- reading the ring.
#include "history.h"

#include <algorithm>
#include <atomic>

namespace tb {

uint32_t History::thread_number() noexcept {
  static std::atomic<uint32_t> threads{0};
  static thread_local uint32_t mine = threads.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

std::vector<HistoryEvent> History::events() const {
  uint64_t count = std::min(next_, size_);
  std::vector<HistoryEvent> out(count);
  for (uint64_t at = 0; at < count; ++at) out[at] = ring_[(next_ - count + at) & (size_ - 1)];
  return out;
}

History::Clock::Clock(const History &history) : first_(history.first_ticks_), start_(history.first_time_) {
  auto passed = static_cast<double>(ticks() - first_);
  scale_ = passed > 0 ? static_cast<double>(now() - start_) / passed : 0;
}

} // namespace tb
