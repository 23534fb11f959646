// The memory that the driver has given out, by address.
#include "drivers/npu/ranges.h"

namespace tb::drivers::npu {
namespace {
uintptr_t address(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }
} // namespace

void Ranges::add(void *base, uint64_t size, Kind kind, int32_t device) {
  std::lock_guard lock(mutex_);
  ranges_[address(base)] = {address(base), size, kind, device};
}

bool Ranges::add_unless_known(void *base, uint64_t size, Kind kind, int32_t device) {
  std::lock_guard lock(mutex_);
  if (overlaps(address(base), size)) return false;
  ranges_[address(base)] = {address(base), size, kind, device};
  return true;
}

std::optional<Ranges::Range> Ranges::take(const void *base, Kind kind) {
  std::lock_guard lock(mutex_);
  const auto found = ranges_.find(address(base));
  if (found == ranges_.end() || found->second.kind != kind) return std::nullopt;
  const Range range = found->second;
  ranges_.erase(found);
  return range;
}

void Ranges::put_back(const Range &range) {
  std::lock_guard lock(mutex_);
  ranges_[range.base] = range;
}

bool Ranges::overlaps(uintptr_t base, uint64_t size) const {
  const auto after = ranges_.lower_bound(base);
  if (after != ranges_.end() && after->first - base < size) return true;
  return after != ranges_.begin() && base - std::prev(after)->first < std::prev(after)->second.size;
}

std::optional<Ranges::Range> Ranges::find(const void *pointer) const {
  std::shared_lock lock(mutex_);
  const auto after = ranges_.upper_bound(address(pointer));
  if (after == ranges_.begin()) return std::nullopt;
  const Range &range = std::prev(after)->second;
  if (address(pointer) - range.base >= range.size) return std::nullopt;
  return range;
}

std::optional<Ranges::Range> Ranges::starting(const void *base) const {
  std::shared_lock lock(mutex_);
  const auto found = ranges_.find(address(base));
  if (found == ranges_.end()) return std::nullopt;
  return found->second;
}

Ranges::Counts Ranges::counts() const {
  std::shared_lock lock(mutex_);
  Counts counts = {};
  for (const auto &[base, range] : ranges_)
    ++(range.kind == Kind::device ? counts.device : range.kind == Kind::pinned ? counts.pinned : counts.registered);
  return counts;
}

} // namespace tb::drivers::npu
