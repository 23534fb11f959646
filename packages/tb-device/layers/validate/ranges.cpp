// Looks up ranges of memory by address.
#include "layers/validate/ranges.h"

namespace tb::layers {

std::mutex &Ranges::reader() const {
  static std::atomic<unsigned> threads{0};
  static thread_local const unsigned mine = threads.fetch_add(1, std::memory_order_relaxed);
  return readers_[mine % readers_.size()].mutex;
}

template <class Body> void Ranges::change(Body &&body) {
  for (Reader &one : readers_) one.mutex.lock(); // always in this order
  struct Unlock {
    std::array<Reader, 4> &readers;
    ~Unlock() {
      for (Reader &one : readers) one.mutex.unlock();
    }
  } unlock{readers_};
  body();
}

Ranges::Map::const_iterator Ranges::holder(const void *address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto after = living_.upper_bound(at);
  if (after == living_.begin()) return living_.end();
  --after;
  const uint64_t offset = at - after->first;
  // One past the end is not inside, except that an empty block is found at its own address.
  return !after->second.size_known || offset < after->second.size || offset == 0 ? after : living_.end();
}

uint64_t Ranges::reach(Map::const_iterator range, const void *address) const {
  if (!range->second.size_known) return UINT64_MAX;
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  uintptr_t end = range->first + range->second.size;
  if (range->second.kind == Kind::mapping)
    for (auto next = std::next(range);
         next != living_.end() && next->first == end && next->second.kind == Kind::mapping; ++next)
      end += next->second.size;
  return end - at;
}

void Ranges::add(const void *base, Range range) {
  const auto first = reinterpret_cast<uintptr_t>(base);
  change([&] {
    auto overlapping = living_.lower_bound(first);
    if (overlapping != living_.begin()) {
      const auto before = std::prev(overlapping);
      if (before->second.size_known && before->first + before->second.size > first) living_.erase(before);
    }
    while (overlapping != living_.end() && overlapping->first - first < (range.size ? range.size : 1))
      overlapping = living_.erase(overlapping);
    living_.insert_or_assign(first, std::move(range));
  });
}

bool Ranges::end(const void *base, uint64_t call, Slot by) {
  bool lived = false;
  change([&] {
    auto node = living_.extract(reinterpret_cast<uintptr_t>(base));
    if (!(lived = !node.empty())) return;
    node.mapped().ended = call;
    node.mapped().ended_by = by;
    ended_.emplace_front(node.key(), std::move(node.mapped()));
    if (ended_.size() > remembered) ended_.pop_back();
  });
  return lived;
}

void Ranges::revive(const void *base, uint64_t call) {
  std::optional<Range> found;
  change([&] {
    for (auto one = ended_.begin(); one != ended_.end() && !found; ++one) {
      if (one->first != reinterpret_cast<uintptr_t>(base) || one->second.ended != call) continue;
      found = std::move(one->second);
      ended_.erase(one);
      break;
    }
  });
  if (!found) return;
  found->ended = 0;
  found->ended_by = Slot::count;
  add(base, std::move(*found));
}

std::optional<FoundRange> Ranges::find(const void *address) const {
  std::optional<FoundRange> out;
  with(address, [&](uintptr_t base, const Range &range, uint64_t reaches) { out = FoundRange{base, range, reaches}; });
  return out;
}

std::optional<FoundRange> Ranges::find_ended(const void *address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(reader());
  for (const auto &[base, range] : ended_)
    if (at - base < (range.size ? range.size : 1)) return FoundRange{base, range, base + range.size - at};
  return std::nullopt;
}

} // namespace tb::layers
