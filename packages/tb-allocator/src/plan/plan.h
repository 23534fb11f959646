// plan.h -- a named step that repeats: recorded while it warms up, then served from places computed beforehand.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "plan/program.h"

namespace tb::allocator {

struct PlanFigures {
  uint64_t steps = 0;       // steps that ended
  uint64_t replays = 0;     // of those: served as planned from begin to end
  uint64_t divergences = 0; // of those: began as planned, and did not continue so
  uint64_t hits = 0;        // allocations served from their places
  uint64_t handovers = 0;   // waits of a stream for another on the device, since the plan was made
  uint64_t allocations = 0; // of the planned step
  uint64_t placed = 0;      // of those: freed within it
  uint64_t reserved = 0;    // bytes of the one piece of memory for all places
  uint64_t peak = 0;        // bytes of it that are allocated at one time, at most
  double seconds = 0;       // it took to compute the places
};

// Guarded by the store's lock; between begin_step and end_step only the planner changes it.
class Plan {
public:
  enum class State { recording, ready, replaying, diverged };

  explicit Plan(std::string name_, uint32_t warmup_) : name(std::move(name_)), warmup(warmup_) {}

  const std::string name;
  uint32_t warmup;    // repetitions that are only recorded; the last one counts
  double seconds = 5; // of processor time, to compute places
  State state = State::recording;
  bool open = false; // whether a step of it is
  uint32_t recorded = 0;
  // A plan that no longer fits is made again: after `patience` failed steps, which grows while that does not help.
  uint32_t failed = 0, patience = least_patience;
  static constexpr uint32_t least_patience = 2, most_patience = 64;
  Recording recording;
  std::shared_ptr<Program> compiled; // from the recording, while there is no memory for it
  uint32_t wait = 0;                 // steps until it is tried again
  std::shared_ptr<Program> program;  // NULL before it is made, and after its memory was needed elsewhere
  PlanFigures figures;
};

inline const char *name_of(Plan::State state) {
  constexpr const char *names[] = {"recording", "ready", "replaying", "diverged"};
  return names[static_cast<size_t>(state)];
}

} // namespace tb::allocator
