// The scheduling policy: when work runs, and which stream runs next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "drivers/sim/schedule/random.h"

namespace tb::drivers::sim {

class Queue;

// The same calls get the same answers for a seed. Seeds differ in strategy as well as in numbers, because bugs differ:
// a missing wait shows when work is late; memory that is freed too early, when work is late on one stream only; a host
// that reads too early, when everything is late; an order that only holds by chance, when some work is early.
class Policy {
public:
  explicit Policy(uint64_t seed);
  // Steps to run during a call that queues work; mostly 0.
  uint64_t steps_at_enqueue();
  // Steps to run during a query: 0 to 3.
  uint64_t steps_at_query() { return random_.below(4); }
  // Whether work that no thread waits for runs before work that a thread waits for.
  bool strays() { return random_.chance(stray_); }
  Queue *pick(const std::vector<Queue *> &candidates);
  uint32_t new_rank() { return static_cast<uint32_t>(random_.next()); }

private:
  Random random_;
  uint32_t early_; // of 256: the chance that a call that queues work runs some
  uint32_t stray_; // of 256
  bool ranked_;    // one stream is favoured over others for long, else all are equal
};

} // namespace tb::drivers::sim
