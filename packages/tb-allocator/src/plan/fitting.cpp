// fitting.cpp -- ejection search: a block that is ejected gets heavier, so that no two blocks eject each other forever.
#include "plan/fitting.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace tb::allocator {

// As many allocations between two lists as a list is long, so that all lists together are as long as there are blocks.
Fitting::Fitting(const std::vector<Lifetime> &blocks) : blocks_(blocks) {
  std::vector<int64_t> change(blocks.size() + 1);
  int64_t alive = 0, most = 0;
  for (size_t at = 0; at < blocks.size(); ++at) {
    --change[blocks[at].to];
    most = std::max(most, alive += 1 + change[at]);
  }
  stride_ = static_cast<uint32_t>(most) + 16;
  std::vector<uint32_t> now;
  for (uint32_t at = 0; at < blocks.size(); ++at) {
    if (at % stride_ == 0) {
      std::erase_if(now, [&](uint32_t one) { return blocks[one].to <= at; });
      alive_.push_back(now);
    }
    now.push_back(at);
  }
}

// The placed blocks whose lifetimes overlap that of this one, and their edges.
void Fitting::look_beside(uint32_t block, const std::vector<uint64_t> &offsets) {
  beside_.clear();
  lower_.clear();
  upper_.clear();
  auto add = [&](uint32_t other) {
    if (!placed_[other] || blocks_[other].to <= block) return;
    beside_.push_back(other);
    lower_.push_back({offsets[other], weights_[other]});
    upper_.push_back({offsets[other] + blocks_[other].size, weights_[other]});
  };
  uint32_t list = block / stride_;
  for (uint32_t other : alive_[list]) add(other);
  for (uint32_t other = list * stride_; other < blocks_[block].to; ++other) add(other);
  auto by_address = [](const Edge &a, const Edge &b) { return a.at < b.at; };
  std::sort(lower_.begin(), lower_.end(), by_address);
  std::sort(upper_.begin(), upper_.end(), by_address);
}

// The place that ejects the least weight. It is at an edge of another block or of the memory; no other place is better.
uint64_t Fitting::cheapest(uint64_t size, uint64_t capacity) const {
  double least = HUGE_VAL;
  uint64_t best = 0;
  size_t begun = 0, ended = 0; // edges passed
  double weight = 0;           // of the blocks between
  auto consider = [&](uint64_t at) {
    for (; begun < lower_.size() && lower_[begun].at < at + size; ++begun) weight += lower_[begun].weight;
    for (; ended < upper_.size() && upper_[ended].at <= at; ++ended) weight -= upper_[ended].weight;
    if (weight >= least * (1 - 1e-9) - 1e-9) return; // lower addresses first; a sum in another order counts as equal
    least = weight;
    best = at;
  };
  uint64_t last = capacity - size;
  consider(0);
  size_t above = 0, below = 0; // candidates: above an upper edge, below a lower one
  while (true) {
    while (below < lower_.size() && lower_[below].at < size) ++below;
    uint64_t one = above < upper_.size() ? upper_[above].at : UINT64_MAX;
    uint64_t other = below < lower_.size() ? lower_[below].at - size : UINT64_MAX;
    uint64_t at = std::min(one, other);
    if (at >= last) break;
    consider(at);
    above += one == at;
    below += other == at;
  }
  consider(last);
  return best;
}

bool Fitting::run(uint64_t capacity, Hardness hardness, uint64_t work, Clock::time_point deadline,
                  std::vector<uint64_t> *offsets) {
  std::vector<double> hard(blocks_.size());
  placed_.assign(blocks_.size(), true);
  std::set<std::pair<double, uint32_t>> waiting;
  for (uint32_t at = 0; at < blocks_.size(); ++at) {
    const Lifetime &block = blocks_[at];
    if (block.size > capacity) return false;
    hard[at] = std::pow(static_cast<double>(block.size), hardness.size_power) *
               std::pow(static_cast<double>(block.to - at), hardness.time_power);
    if ((*offsets)[at] + block.size <= capacity) continue;
    placed_[at] = false;
    waiting.insert({hard[at], at});
  }
  weights_ = hard;
  for (uint64_t looks = 0; !waiting.empty(); looks += stride_ + beside_.size()) {
    if (looks > work || Clock::now() > deadline) return false;
    uint32_t block = std::prev(waiting.end())->second;
    waiting.erase(std::prev(waiting.end()));
    look_beside(block, *offsets);
    uint64_t size = blocks_[block].size, from = cheapest(size, capacity);
    for (uint32_t other : beside_) {
      if ((*offsets)[other] >= from + size || (*offsets)[other] + blocks_[other].size <= from) continue;
      placed_[other] = false;
      weights_[other] += hard[other];
      waiting.insert({hard[other], other});
    }
    (*offsets)[block] = from;
    placed_[block] = true;
  }
  return true;
}

} // namespace tb::allocator
