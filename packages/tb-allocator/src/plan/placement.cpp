// placement.cpp -- several heuristics, of which the best result counts.
//
// The first does what an allocator would do, with best fit. The others fill the plane of time and address from below
// (a skyline): at the lowest place they put the block that fills its time best, in several meanings of "best".
#include "plan/placement.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace tb {
namespace {

// The thread's own time: what else the machine does makes no plan worse.
struct Clock {
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<Clock, duration>;
  static time_point now() noexcept {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time_point(std::chrono::seconds(time.tv_sec) + duration(time.tv_nsec));
  }
};
using Blocks = std::vector<Lifetime>;

uint64_t peak_of(const Blocks &blocks) {
  std::vector<uint64_t> freed(blocks.size() + 1);
  uint64_t live = 0, peak = 0;
  for (size_t at = 0; at < blocks.size(); ++at) {
    live = live - freed[at] + blocks[at].size;
    freed[blocks[at].to] += blocks[at].size;
    peak = std::max(peak, live);
  }
  return peak;
}

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

// How blocks are chosen for a place: by lifetime * size^size_power; those that leave no gap in time beside them count
// `edge` times as much.
struct Preference {
  double size_power, edge;
};

class Skyline {
public:
  // Not finished after `deadline`: bytes is UINT64_MAX.
  Placement run(const Blocks &blocks, Preference preference, Clock::time_point deadline) {
    Placement out;
    auto count = static_cast<uint32_t>(blocks.size());
    out.offsets.resize(count);
    std::vector<double> worth(count);
    for (uint32_t at = 0; at < count; ++at)
      worth[at] = (blocks[at].to - at) * std::pow(static_cast<double>(blocks[at].size), preference.size_power);
    next_.resize(count + 1);
    std::iota(next_.begin(), next_.end(), 0);
    add({0, count, 0});
    for (uint32_t left = count, turn = 0; left; ++turn) {
      if (turn % 256 == 0 && Clock::now() > deadline) {
        out.bytes = UINT64_MAX;
        return out;
      }
      Step step = steps_[lowest_.begin()->second];
      uint32_t best = count;
      double most = -1;
      for (uint32_t at = unplaced(step.from); at < step.to; at = unplaced(at + 1)) {
        if (blocks[at].to > step.to) continue;
        bool edge = at == step.from || blocks[at].to == step.to;
        double value = edge ? worth[at] * preference.edge : worth[at];
        if (value <= most) continue;
        most = value;
        best = at;
      }
      if (best == count) {
        raise(step);
        continue;
      }
      const Lifetime &block = blocks[best];
      out.offsets[best] = step.height;
      out.bytes = std::max(out.bytes, step.height + block.size);
      next_[best] = best + 1;
      --left;
      remove(step);
      add({step.from, best, step.height});
      add({best, block.to, step.height + block.size});
      add({block.to, step.to, step.height});
    }
    return out;
  }

private:
  struct Step { // events [from, to) are filled up to the height
    uint32_t from, to;
    uint64_t height;
  };
  void add(Step step) {
    if (step.from == step.to) return;
    steps_[step.from] = step;
    lowest_.insert({step.height, step.from});
  }
  void remove(Step step) {
    steps_.erase(step.from);
    lowest_.erase({step.height, step.from});
  }
  // Nothing fits there: it becomes a part of its lower neighbour, or of both. The lowest step has one, unless it is all.
  void raise(Step step) {
    auto here = steps_.find(step.from), after = std::next(here);
    bool has_before = here != steps_.begin(), has_after = after != steps_.end();
    Step low = has_before ? std::prev(here)->second : Step{0, 0, UINT64_MAX};
    Step high = has_after ? after->second : Step{0, 0, UINT64_MAX};
    uint64_t height = std::min(low.height, high.height);
    remove(step);
    Step merged{step.from, step.to, height};
    if (has_before && low.height == height) {
      remove(low);
      merged.from = low.from;
    }
    if (has_after && high.height == height) {
      remove(high);
      merged.to = high.to;
    }
    add(merged);
  }
  uint32_t unplaced(uint32_t at) { // the first from `at` on; skips whole runs the next time
    uint32_t found = at;
    while (next_[found] != found) found = next_[found];
    while (next_[at] != found && at != found) at = std::exchange(next_[at], found);
    return found;
  }

  std::map<uint32_t, Step> steps_;
  std::set<std::pair<uint64_t, uint32_t>> lowest_;
  std::vector<uint32_t> next_;
};

Placement place_together(const Blocks &blocks, Clock::time_point deadline) {
  Placement best = BestFit().run(blocks);
  best.peak = peak_of(blocks);
  constexpr Preference preferences[] = {{0, 1},   {1, 1},    {0.5, 1}, {0.2, 1}, {0.1, 1},
                                        {0.3, 3}, {0.75, 1}, {1.5, 1}, {0, 3},   {1, 3}};
  for (Preference preference : preferences) {
    if (best.bytes - best.peak <= best.peak / 1000 || Clock::now() > deadline) break;
    Placement other = Skyline().run(blocks, preference, deadline);
    if (other.bytes >= best.bytes) continue;
    best.bytes = other.bytes;
    best.offsets = std::move(other.offsets);
  }
  return best;
}

// Each stream's blocks above those of the streams before it.
Placement place_apart(const Blocks &blocks, uint32_t streams, Clock::time_point deadline) {
  Placement out;
  out.offsets.resize(blocks.size());
  for (uint32_t stream = 0; stream < streams; ++stream) {
    std::vector<uint32_t> mine;
    for (uint32_t at = 0; at < blocks.size(); ++at)
      if (blocks[at].stream == stream) mine.push_back(at);
    Blocks part;
    for (uint32_t at : mine) {
      auto to = std::lower_bound(mine.begin(), mine.end(), blocks[at].to) - mine.begin();
      part.push_back({blocks[at].size, static_cast<uint32_t>(to), 0});
    }
    Placement placed = place_together(part, deadline);
    for (size_t at = 0; at < mine.size(); ++at) out.offsets[mine[at]] = out.bytes + placed.offsets[at];
    out.bytes += placed.bytes;
  }
  return out;
}

} // namespace

Placement place(const std::vector<Lifetime> &blocks, double seconds) {
  auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  uint32_t streams = 0;
  std::vector<uint64_t> peaks; // by stream
  for (const Lifetime &block : blocks) streams = std::max(streams, block.stream + 1);
  if (streams <= 1) return place_together(blocks, deadline);
  Placement apart = place_apart(blocks, streams, deadline);
  apart.peak = peak_of(blocks);
  if (static_cast<double>(apart.bytes) <= static_cast<double>(apart.peak) * (1 + apart_waste)) return apart;
  Placement together = place_together(blocks, deadline);
  together.apart = false;
  return together.bytes < apart.bytes ? together : apart;
}

} // namespace tb
