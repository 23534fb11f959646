// history.cpp -- the ring of pages, and reading it.
#include "diagnostics/history.h"

#include <algorithm>

namespace tb::allocator {

void History::resize(uint64_t events) {
  if (!events) return;
  uint64_t size = std::bit_ceil(events), pages = std::max(size / HistoryPage::capacity, uint64_t{1});
  // Zeroed by the system, page by page when first written.
  pages_.reset(static_cast<HistoryPage *>(calloc(pages, sizeof(HistoryPage))));
  if (!pages_) throw std::bad_alloc();
  ring_ = std::make_unique<HistoryPage *[]>(pages);
  ring_size_ = pages;
  size_ = size;
  page_ = take_page();
}

HistoryPage *History::take_page() {
  if (!size_) return nullptr;
  if (spare_.empty()) {
    spare_.reserve(more_.size() + 1); // return_page() must not fail
    more_.push_back(std::make_unique<HistoryPage>());
    return more_.back().get();
  }
  HistoryPage *page = spare_.back();
  spare_.pop_back();
  return page;
}

void History::return_page(HistoryPage *page) noexcept {
  for (size_t at = 0; at < page->used; ++at) add(page->events[at]);
  page->used = 0;
  spare_.push_back(page);
}

std::vector<HistoryEvent> History::events() const {
  std::vector<HistoryEvent> out;
  out.reserve((std::min(next_, ring_size_) + 1) * HistoryPage::capacity);
  auto append = [&](const HistoryPage *page) {
    if (page) out.insert(out.end(), page->events.begin(), page->events.begin() + static_cast<ptrdiff_t>(page->used));
  };
  for (uint64_t at = next_ - std::min(next_, ring_size_); at < next_; ++at) append(ring_[at & (ring_size_ - 1)]);
  append(page_);
  return out;
}

void History::arrange(std::vector<HistoryEvent> *events) const {
  // Stable, so that events of one thread at the same tick stay in order.
  auto earlier = [](const HistoryEvent &one, const HistoryEvent &other) { return one.ticks < other.ticks; };
  if (!std::is_sorted(events->begin(), events->end(), earlier))
    std::stable_sort(events->begin(), events->end(), earlier);
  if (events->size() > size_) events->erase(events->begin(), events->end() - static_cast<ptrdiff_t>(size_));
}

History::Clock::Clock(const History &history) : first_(history.first_ticks_), start_(history.first_time_) {
  auto passed = static_cast<double>(ticks() - first_);
  scale_ = passed > 0 ? static_cast<double>(now() - start_) / passed : 0;
}

} // namespace tb::allocator
