// Turns a seed into choices.
#include "drivers/sim/schedule/policy.h"

#include <algorithm>

#include "drivers/sim/queue/queue.h"

namespace tb::drivers::sim {

namespace {
constexpr uint32_t early[] = {0, 0, 64, 200};
constexpr uint32_t stray[] = {0, 64, 128, 128};
constexpr uint32_t rank_change = 16; // of 256 picks
} // namespace

Policy::Policy(uint64_t seed)
    : random_(seed), early_(early[seed % 4]), stray_(stray[seed % 4]), ranked_(seed / 4 % 2) {}

uint64_t Policy::steps_at_enqueue() {
  if (!random_.chance(early_)) return 0;
  uint64_t steps = 1;
  while (steps < 16 && random_.chance(128)) ++steps;
  return steps;
}

Queue *Policy::pick(const std::vector<Queue *> &candidates) {
  if (!ranked_) return candidates[random_.below(candidates.size())];
  // Ranks that change rarely find orders in which one stream runs far ahead of another (the idea of Burckhardt and
  // others, "A randomized scheduler with probabilistic guarantees of finding bugs", 2010).
  Queue *best = *std::max_element(candidates.begin(), candidates.end(),
                                  [](const Queue *left, const Queue *right) { return left->rank < right->rank; });
  if (random_.chance(rank_change)) best->rank = new_rank();
  return best;
}

} // namespace tb::drivers::sim
