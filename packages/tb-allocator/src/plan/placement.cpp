// placement.cpp -- several heuristics; the best result is used.
//
// The first ones fill the plane of time and address from below (a skyline): at the lowest place they put the block that
// fills its time best, by several measures. The next one does what an allocator would do, with best fit: it always ends
// in time, but passes bytes from stream to stream. Where all waste too much, a local search continues from their
// results.
#include "plan/placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "plan/fitting.h"
#include "plan/skyline.h"

namespace tb::allocator {
namespace {

class BestFit {
public:
  Placement run(const Blocks &blocks) {
    Placement out;
    out.offsets.resize(blocks.size());
    std::vector<std::vector<uint32_t>> ends(blocks.size() + 1);
    for (uint32_t at = 0; at < blocks.size(); ++at) {
      for (uint32_t freed : ends[at]) give(out.offsets[freed], out.offsets[freed] + blocks[freed].size);
      out.offsets[at] = take(blocks[at].size);
      ends[blocks[at].to].push_back(at);
    }
    out.bytes = top_;
    return out;
  }

private:
  using Free = std::map<uint64_t, uint64_t>; // ends by start

  Free::iterator remove(Free::iterator one) {
    sizes_.erase({one->second - one->first, one->first});
    return free_.erase(one);
  }
  void add(uint64_t from, uint64_t to) {
    if (from == to) return;
    free_[from] = to;
    sizes_.insert({to - from, from});
  }
  void give(uint64_t from, uint64_t to) {
    auto next = free_.lower_bound(from);
    if (next != free_.end() && next->first == to) {
      to = next->second;
      next = remove(next);
    }
    if (next != free_.begin() && std::prev(next)->second == from) {
      from = std::prev(next)->first;
      remove(std::prev(next));
    }
    add(from, to);
  }
  uint64_t take(uint64_t size) {
    auto found = sizes_.lower_bound({size, 0});
    auto one = found == sizes_.end() ? free_.end() : free_.find(found->second);
    if (one == free_.end() && !free_.empty() && std::prev(free_.end())->second == top_) one = std::prev(free_.end());
    uint64_t from = top_, to = top_;
    if (one != free_.end()) {
      from = one->first;
      to = one->second;
      remove(one);
    }
    add(from + size, std::max(to, from + size));
    top_ = std::max(top_, from + size);
    return from;
  }

  Free free_;
  std::set<std::pair<uint64_t, uint64_t>> sizes_; // and starts
  uint64_t top_ = 0;
};

constexpr Preference preferences[] = {{0, 1},   {1, 1},    {0.5, 1}, {0.2, 1}, {0.1, 1},
                                      {0.3, 3}, {0.75, 1}, {1.5, 1}, {0, 3},   {1, 3}};

// Blocks so small that all of them together hardly count are placed above the others, so that the search moves fewer.
void squeeze(const Blocks &blocks, Placement *best, Clock::time_point deadline) {
  constexpr struct {
    Preference start;
    Fitting::Hardness hardness;
  } attempts[] = {{{0.2, 1}, {0.8, 1.1}}, {{1, 1}, {0.7, 1}}, {{1, 3}, {1, 1}}, {{0.75, 1}, {0.5, 1}}};
  constexpr uint64_t unit = 512, looks = 1000; // a block's, in the first round
  uint64_t small = 0;
  Part fine, coarse;
  for (uint64_t more = unit; more < best->peak; more *= 2) {
    Part part = part_of(blocks, [&](const Lifetime &one) { return one.size <= more; });
    if (peak_of(part.blocks) > best->peak / 500) break;
    small = more;
    fine = std::move(part);
  }
  coarse = part_of(blocks, [&](const Lifetime &one) { return one.size > small; });
  Placement top = BestFit().run(fine.blocks);
  uint64_t capacity = (most_bytes(best->peak) - top.bytes) / unit * unit;
  Fitting fitting(coarse.blocks);
  Skyline skyline(coarse.blocks);
  for (uint64_t work : {looks, 2 * looks, 4 * looks})
    for (const auto &[preference, hardness] : attempts) {
      Placement found = skyline.run(preference, deadline);
      if (found.bytes == UINT64_MAX) return;
      if (!fitting.run(capacity, hardness, work * coarse.blocks.size(), deadline, &found.offsets)) continue;
      for (size_t at = 0; at < coarse.which.size(); ++at) best->offsets[coarse.which[at]] = found.offsets[at];
      for (size_t at = 0; at < fine.which.size(); ++at) best->offsets[fine.which[at]] = capacity + top.offsets[at];
      best->bytes = capacity + top.bytes;
      return;
    }
}

} // namespace

uint64_t peak_of(const Blocks &blocks) {
  std::vector<uint64_t> freed(blocks.size() + 1);
  uint64_t allocated = 0, peak = 0;
  for (size_t at = 0; at < blocks.size(); ++at) {
    allocated = allocated - freed[at] + blocks[at].size;
    freed[blocks[at].to] += blocks[at].size;
    peak = std::max(peak, allocated);
  }
  return peak;
}

Placement stack(const Blocks &blocks, uint64_t good, Clock::time_point patience, Clock::time_point deadline) {
  Placement best;
  best.bytes = UINT64_MAX;
  uint64_t peak = peak_of(blocks), excellent = peak + peak / 1000;
  Skyline skyline(blocks);
  for (Preference preference : preferences) {
    if (best.bytes <= excellent || Clock::now() > (best.bytes <= good ? patience : deadline)) break;
    Placement other = skyline.run(preference, deadline);
    if (other.bytes < best.bytes) best = std::move(other);
  }
  if (best.bytes > good || best.bytes == UINT64_MAX) { // the latter: no time was left
    Placement other = BestFit().run(blocks);
    if (other.bytes < best.bytes) best = std::move(other);
  }
  best.peak = peak;
  return best;
}

Placement place_together(const Blocks &blocks, Clock::time_point deadline) {
  uint64_t good = most_bytes(peak_of(blocks));
  Placement best = stack(blocks, good, Clock::now() + Clock::seconds(0.5), deadline);
  if (best.bytes > good) squeeze(blocks, &best, deadline);
  return best;
}

} // namespace tb::allocator
