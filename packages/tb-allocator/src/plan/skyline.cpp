// skyline.cpp -- the best block for a place is found in a tree over all blocks without one.
#include "plan/skyline.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tb::allocator {

Skyline::Skyline(const Blocks &blocks) : blocks_(blocks), ends_(blocks.size()), first_ending_(blocks.size() + 2) {
  leaves_ = std::bit_ceil(std::max(static_cast<uint32_t>(blocks.size()), 1u));
  for (const Lifetime &block : blocks) ++first_ending_[block.to + 1];
  for (size_t at = 1; at < first_ending_.size(); ++at) first_ending_[at] += first_ending_[at - 1];
  std::vector<uint32_t> next(first_ending_.begin(), std::prev(first_ending_.end()));
  for (uint32_t at = 0; at < blocks.size(); ++at) ends_[next[blocks[at].to]++] = at;
}

Placement Skyline::run(Preference preference, Clock::time_point deadline) {
  Placement out;
  auto count = static_cast<uint32_t>(blocks_.size());
  out.offsets.resize(count);
  fill_tree(preference);
  steps_.clear();
  lowest_.clear();
  add({0, count, 0});
  for (uint32_t left = count, turn = 0; left; ++turn) {
    if (turn % 256 == 0 && Clock::now() > deadline) {
      out.bytes = UINT64_MAX;
      return out;
    }
    Step step = steps_[lowest_.begin()->second];
    uint32_t best = choose(step, preference.edge).block;
    if (best == count) {
      raise(step);
      continue;
    }
    const Lifetime &block = blocks_[best];
    out.offsets[best] = step.height;
    out.bytes = std::max(out.bytes, step.height + block.size);
    take_from_tree(best);
    --left;
    remove(step);
    add({step.from, best, step.height});
    add({best, block.to, step.height + block.size});
    add({block.to, step.to, step.height});
  }
  return out;
}

Skyline::Choice Skyline::choose(Step step, double edge) const {
  Choice best{-1, static_cast<uint32_t>(blocks_.size())};
  auto at_the_edge = [&](uint32_t block) {
    const Node &leaf = tree_[leaves_ + block];
    if (leaf.to <= step.to && leaf.worth * edge > best.value) best = {leaf.worth * edge, block};
  };
  if (edge > 1) {
    constexpr uint32_t most = 64; // where many end at the same time, the latest of them are as good as any
    at_the_edge(step.from);
    uint32_t first = first_ending_[step.to], last = first_ending_[step.to + 1];
    first = std::max(first, last - std::min(last, most));
    while (last > first && ends_[last - 1] >= step.from) at_the_edge(ends_[--last]);
  }
  find(step, 1, 0, leaves_, &best);
  return best;
}

// The blocks that fit into the step, below a node of the tree; the most valuable is looked at first.
void Skyline::find(Step step, size_t node, uint32_t first, uint32_t count, Choice *best) const {
  if (tree_[node].worth <= best->value || tree_[node].to > step.to) return;
  if (first >= step.to || first + count <= step.from) return;
  if (count == 1) {
    *best = {tree_[node].worth, first};
    return;
  }
  uint32_t half = count / 2;
  bool right = tree_[2 * node + 1].worth > tree_[2 * node].worth;
  find(step, 2 * node + right, first + (right ? half : 0), half, best);
  find(step, 2 * node + !right, first + (right ? 0 : half), half, best);
}

void Skyline::fill_tree(Preference preference) {
  tree_.assign(2 * size_t{leaves_}, {-1, UINT32_MAX});
  for (uint32_t at = 0; at < blocks_.size(); ++at) {
    double size = std::pow(static_cast<double>(blocks_[at].size), preference.size_power);
    tree_[leaves_ + at] = {(blocks_[at].to - at) * size, blocks_[at].to};
  }
  for (size_t node = leaves_; --node > 0;) join(node);
}

void Skyline::take_from_tree(uint32_t block) {
  size_t node = leaves_ + block;
  tree_[node] = {-1, UINT32_MAX};
  while (node /= 2) join(node);
}

void Skyline::join(size_t node) {
  const Node &left = tree_[2 * node], &right = tree_[2 * node + 1];
  tree_[node] = {std::max(left.worth, right.worth), std::min(left.to, right.to)};
}

void Skyline::add(Step step) {
  if (step.from == step.to) return;
  steps_[step.from] = step;
  lowest_.insert({step.height, step.from});
}

void Skyline::remove(Step step) {
  steps_.erase(step.from);
  lowest_.erase({step.height, step.from});
}

// No block fits there: the step becomes a part of its lower neighbour, or of both. The lowest step has a neighbour,
// unless it is the only step.
void Skyline::raise(Step step) {
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

} // namespace tb::allocator
