// skyline.h -- fills the plane of time and address from below: the lowest place gets the block that fills its time
// best.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "plan/placement.h"

namespace tb::allocator {

// How blocks are chosen for a place: by lifetime * size^size_power; those that leave no gap in time beside them count
// `edge` times as much.
struct Preference {
  double size_power, edge;
};

class Skyline {
public:
  explicit Skyline(const Blocks &blocks);
  // Not finished after `deadline`: bytes is UINT64_MAX.
  Placement run(Preference preference, Clock::time_point deadline);

private:
  struct Step { // events [from, to) are filled up to the height
    uint32_t from, to;
    uint64_t height;
  };
  struct Node { // of blocks without a place
    double worth;
    uint32_t to; // the least
  };
  struct Choice {
    double value;
    uint32_t block;
  };
  void add(Step step);
  void remove(Step step);
  void raise(Step step);
  void fill_tree(Preference preference);
  void take_from_tree(uint32_t block);
  void join(size_t node); // of the two below
  void find(Step step, size_t node, uint32_t first, uint32_t count, Choice *best) const;
  Choice choose(Step step, double edge) const;

  const Blocks &blocks_;
  std::map<uint32_t, Step> steps_;
  std::set<std::pair<uint64_t, uint32_t>> lowest_;
  uint32_t leaves_ = 1;
  std::vector<Node> tree_;                    // of the best of its two below; leaves by block
  std::vector<uint32_t> ends_, first_ending_; // blocks by where they end, and where in ends_ those of each event begin
};

} // namespace tb::allocator
