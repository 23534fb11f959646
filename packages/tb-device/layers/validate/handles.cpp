// Ends and revives handles.
#include "layers/validate/handles.h"

namespace tb::layers {

bool Handles::end(const void *handle, uint64_t call, Slot by) {
  const bool lived = with(handle, [&](HandleFacts &facts) {
    facts.ended = call;
    facts.ended_by = by;
  });
  if (!lived) return false;
  std::pair<const void *, uint64_t> oldest{nullptr, 0};
  {
    std::lock_guard lock(ended_mutex_);
    ended_.emplace_back(handle, call);
    if (ended_.size() > remembered) {
      oldest = ended_.front();
      ended_.pop_front();
    }
  }
  // The address may live again by now.
  if (oldest.second) map_.take_if(oldest.first, [&](const HandleFacts &facts) { return facts.ended == oldest.second; });
  return true;
}

void Handles::revive(const void *handle) {
  map_.with(handle, [](HandleFacts &facts) {
    facts.ended = 0;
    facts.ended_by = Slot::count;
  });
}

} // namespace tb::layers
