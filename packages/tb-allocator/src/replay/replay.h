// replay.h -- plays a trace with an allocator of its own, over the driver without memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "blocks/configuration.h"
#include "plan/plan.h"
#include "replay/emulated.h"
#include "replay/trace.h"

namespace tb::allocator {

struct ReplaySettings {
  uint64_t capacity = uint64_t{1} << 42;
  uint64_t lag = 0; // of the streams behind the host, in events of the trace
  int repetitions = 3;
  Configuration configuration;
  bool pinned = false;  // host memory, which belongs to no stream
  bool plan = false;    // each repetition is a step of a plan; the first is recorded
  uint32_t samples = 0; // points of the timeline of the first repetition
};

struct Repetition {
  bool completed = false;
  uint64_t failed_event = 0; // when not completed
  uint64_t failed_bytes = 0;
  double seconds = 0;
  uint64_t peak_reserved = 0; // the most bytes reserved from the driver in this repetition
  std::array<uint64_t, tb_driver::end> calls{};
};

struct Sample {
  uint64_t event, allocated, reserved;
};

struct ReplayResult {
  std::vector<Repetition> repetitions; // the last one is the first that did not complete
  std::vector<Sample> samples;
  PlanFigures plan; // of a replay with one
};

// Every repetition frees what the trace left allocated; the allocator keeps its cache.
ReplayResult replay(const Trace &trace, const ReplaySettings &settings);

} // namespace tb::allocator
