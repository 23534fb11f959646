// Lives of memory, and what graphs use.
#include "layers/races/shadow.h"

#include <algorithm>

namespace tb::layers {

void RecordedGraph::add(const Extent &extent, const Use &use) {
  constexpr size_t looked_at = 256; // a longer graph may have an extent several times, which costs time only
  const size_t from = uses.size() > looked_at ? uses.size() - looked_at : 0;
  for (size_t at = from; at < uses.size(); ++at)
    if (uses[at].use.writes == use.writes && uses[at].extent.same(extent)) return;
  uses.push_back({extent, use});
}

void Shadow::forget(uintptr_t begin, uintptr_t end) {
  meeting(begin, end, [](Cells &cells, Cells::iterator at) { return cells.erase(at); });
}

void Shadow::allocated(uintptr_t begin, uintptr_t end) {
  auto at = lives_.lower_bound(begin);
  if (at != lives_.begin() && std::prev(at)->second.end > begin) --at;
  while (at != lives_.end() && at->first < end) at = lives_.erase(at);
  lives_[begin] = {end, ++last_life_};
}

uint64_t Shadow::life_of(uintptr_t address) const {
  auto at = lives_.upper_bound(address);
  if (at == lives_.begin()) return 0;
  --at;
  return address < at->second.end ? at->second.number : 0;
}

void Shadow::clear() {
  for (Cells &cells : cells_) cells.clear();
  lives_.clear();
}

} // namespace tb::layers
