// Keeps and evicts layouts.
#include "dispatch/layout_cache/layout_cache.h"

namespace tb::ops {
namespace {

// Estimates the memory of an entry, with its nodes in the table and in the order.
size_t bytes_of(const CallKey &key, const CallLayout &layout) {
  constexpr size_t nodes = 128;
  size_t bytes = nodes + key.size() * sizeof key[0] + sizeof layout;
  for (const std::vector<ResultLayout> &list : layout.returns) bytes += sizeof list + list.size() * sizeof list[0];
  return bytes;
}

} // namespace

std::shared_ptr<const CallLayout> LayoutCache::find(const CallKey &key) {
  const std::lock_guard guard(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  found->second.again = true;
  return found->second.layout;
}

void LayoutCache::remember(const CallKey &key, CallLayout layout) {
  const std::lock_guard guard(mutex_);
  const size_t bytes = bytes_of(key, layout);
  make_room(bytes);
  if (bytes_ + bytes > most_bytes) return;
  const auto [place, added] =
      entries_.try_emplace(key, Entry{std::make_shared<const CallLayout>(std::move(layout)), bytes, false});
  if (!added) return; // another thread was first
  bytes_ += bytes;
  once_.push_back(&place->first);
}

void LayoutCache::make_room(size_t bytes) {
  while (bytes_ + bytes > most_bytes && !once_.empty()) {
    const auto oldest = entries_.find(*once_.front());
    once_.pop_front();
    if (oldest->second.again) continue;
    bytes_ -= oldest->second.bytes;
    entries_.erase(oldest);
  }
}

} // namespace tb::ops
