// fitting.h -- places blocks of known lifetimes in memory hardly larger than the most bytes in use at a time: local
// search.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/clock.h"
#include "plan/placement.h"

namespace tb::allocator {

class Fitting {
public:
  // How hard a block is to place: size^size_power * lifetime^time_power.
  struct Hardness {
    double size_power, time_power;
  };

  explicit Fitting(const std::vector<Lifetime> &blocks);

  // Starts from offsets where no two blocks overlap. Blocks that end above `capacity` are removed; then the hardest
  // block without a place goes where it ejects the least, until every block has a place: then it returns true, and
  // `offsets` has the places. Returns false after about `work` looks at blocks, or at the deadline; `offsets` is then
  // invalid.
  bool run(uint64_t capacity, Hardness hardness, uint64_t work, Clock::time_point deadline,
           std::vector<uint64_t> *offsets);

private:
  struct Edge { // of a block beside the current one
    uint64_t at;
    double weight;
  };
  void look_beside(uint32_t block, const std::vector<uint64_t> &offsets);
  uint64_t cheapest(uint64_t size, uint64_t capacity) const;

  const std::vector<Lifetime> &blocks_;
  uint32_t stride_;
  std::vector<std::vector<uint32_t>> alive_; // before every stride-th allocation
  std::vector<bool> placed_;
  std::vector<double> weights_; // grow whenever a block is ejected, so that it is ejected less often
  std::vector<uint32_t> beside_;
  std::vector<Edge> lower_, upper_; // edges of beside_, in order
};

} // namespace tb::allocator
