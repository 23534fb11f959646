// Keeps executors by key.
#include "backends/aclnn/executor_cache.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace tb::ops::aclnn {

Repeatable::Repeatable(Repeatable &&other) noexcept
    : executor_(std::exchange(other.executor_, nullptr)), workspace_(other.workspace_),
      descriptions_(std::move(other.descriptions_)) {}

Repeatable &Repeatable::operator=(Repeatable &&other) noexcept {
  std::swap(executor_, other.executor_);
  std::swap(workspace_, other.workspace_);
  std::swap(descriptions_, other.descriptions_);
  return *this;
}

Repeatable::~Repeatable() {
  if (executor_) library().destroy_executor(executor_); // before the descriptions that it uses
}

bool Repeatable::move_to(const std::vector<void *> &storages) {
  const Library &l = library();
  const auto &places = descriptions_.places();
  TORCH_INTERNAL_ASSERT(places.size() == storages.size());
  for (size_t i = 0; i < places.size(); i++) {
    const auto set = places[i].output ? l.set_output : l.set_input;
    if (set(executor_, places[i].index, places[i].description, storages[i])) return false;
  }
  return true;
}

std::optional<Repeatable> ExecutorCache::take(const std::string &key) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) {
    misses_++;
    return std::nullopt;
  }
  hits_++;
  const Entries::iterator entry = place->second;
  places_.erase(place);
  std::optional<Repeatable> out(std::move(entry->second));
  entries_.erase(entry);
  return out;
}

void ExecutorCache::put(const std::string &key, Repeatable executor) {
  Entries gone; // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  if (places_.contains(key)) return; // another thread has put one meanwhile
  entries_.emplace_front(key, std::move(executor));
  places_.emplace(entries_.front().first, entries_.begin());
  if (entries_.size() <= room_) return;
  places_.erase(entries_.back().first);
  gone.splice(gone.begin(), entries_, std::prev(entries_.end()));
  dropped_++;
}

ExecutorCounts ExecutorCache::counts() {
  const std::lock_guard lock(mutex_);
  return {hits_, misses_, dropped_, entries_.size(), room_};
}

void ExecutorCache::clear() {
  Entries gone;
  const std::lock_guard lock(mutex_);
  places_.clear();
  gone.swap(entries_);
}

ExecutorCache &executor_cache() {
  static auto *all = [] {
    const char *set = std::getenv("TB_ACLNN_EXECUTORS");
    const std::string_view given = set ? set : "1024";
    size_t room = 0;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), room);
    TORCH_CHECK(error == std::errc() && end == given.data() + given.size(), "TB_ACLNN_EXECUTORS=", given,
                " is not a number of executors: give 0 or more, or unset it");
    return new ExecutorCache(room); // never destroyed: the library may be gone by then
  }();
  return *all;
}

} // namespace tb::ops::aclnn
