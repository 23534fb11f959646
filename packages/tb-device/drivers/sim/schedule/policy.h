// The choices of the scheduler: when to run something, and which stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "drivers/sim/schedule/random.h"

namespace tb::drivers::sim {

class Queue;

// The same calls get the same answers for a seed. Seeds differ in style as well as in luck, because bugs differ: a lost
// wait shows when work is late, memory given back too early when it is late on one stream only, a host that reads too
// early when everything is late, an order that only holds when nothing overtakes when some of it is early.
class Chooser {
public:
  explicit Chooser(uint64_t seed);
  // Steps to run during a call that queues work; 0 mostly.
  uint64_t steps_at_enqueue();
  // Steps to run during a query: 0 to 3.
  uint64_t steps_at_query() { return random_.below(4); }
  // Whether something that nobody waits for runs before what somebody waits for.
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
