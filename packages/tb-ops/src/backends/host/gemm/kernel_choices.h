// Per-shape kernel selection. A shape uses tb-ops' kernel only after a timed trial showed bit-identical output in less time.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace tb::ops::host {

// The choices for the shapes that were computed so far. Safe from any thread.
template <class Size> class KernelChoices {
public:
  // Whether tb-ops' kernel computes the shape. `gains` runs the trial, once, after the shape was computed a few times: a trial
  // takes as long as some ten calls, and would never pay for shapes that do not come again.
  bool ours(const Size &size, const std::function<bool()> &gains) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = find(size);
      if (found == choices_.end()) return false;
      Choice &choice = found->second;
      if (choice.uses > few || ++choice.uses <= few) return choice.ours;
    }
    const bool gained = gains();
    const std::lock_guard lock(mutex_);
    return find(size)->second.ours = gained;
  }

  // The shapes that were tried, and whether tb-ops' kernel computes them.
  std::vector<std::pair<Size, bool>> tried() const {
    std::vector<std::pair<Size, bool>> out;
    const std::lock_guard lock(mutex_);
    for (const auto &[size, choice] : choices_)
      if (choice.uses > few) out.emplace_back(size, choice.ours);
    return out;
  }

private:
  static constexpr uint32_t few = 4;
  static constexpr size_t most_sizes = 4096;

  struct Choice {
    uint32_t uses = 0; // counted until it is tried
    bool ours = false;
  };
  auto find(const Size &size) {
    return choices_.size() < most_sizes ? choices_.try_emplace(size).first : choices_.find(size);
  }

  mutable std::mutex mutex_;
  std::map<Size, Choice> choices_; // elements stay where they are
};

// Numbers from -1 to 1 for a trial; the same ones for the same `state`, which advances.
template <class T> std::vector<T> trial_numbers(int64_t size, uint32_t &state) {
  std::vector<T> made(static_cast<size_t>(size));
  for (T &number : made) number = static_cast<T>(static_cast<int32_t>(state = state * 1664525 + 1013904223) * 0x1p-31);
  return made;
}

// The output of a trial, and the shortest time of a few runs.
struct TrialOutcome {
  std::vector<float> out;
  int64_t nanoseconds;
  bool gains(const TrialOutcome &other) const { return out == other.out && nanoseconds < other.nanoseconds; }
};
// Times run(out), with `out` set to `before` each time.
TrialOutcome time_trial(const std::vector<float> &before, const std::function<void(float *out)> &run);

} // namespace tb::ops::host
