// Timed trials.
#include "backends/host/gemm/kernel_choices.h"

#include <algorithm>
#include <chrono>

namespace tb::ops::host {

TrialOutcome time_trial(const std::vector<float> &before, const std::function<void(float *out)> &run) {
  TrialOutcome outcome{{}, INT64_MAX};
  for (int i = 0; i < 3; i++) {
    outcome.out = before;
    const auto started = std::chrono::steady_clock::now();
    run(outcome.out.data());
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - started;
    outcome.nanoseconds = std::min<int64_t>(outcome.nanoseconds, took.count());
  }
  return outcome;
}

} // namespace tb::ops::host
