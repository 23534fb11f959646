// Chooses, per key, between a baseline and a candidate that compute the same results, by measuring both.
//
// The candidate is one of our kernels in place of PyTorch's, a kernel on several threads in place of one, or a GEMM that is
// divided in place of a whole one. The keys hold everything on which the speed or the bits may depend. Choices by trial
// require that the candidate's results are bit-identical on the data of the trials, which is evidence and not a proof.
#pragma once
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace tb::ops {

// Nanoseconds of the monotonic clock by which everything here is measured.
inline int64_t autotuner_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct AutotuneRule {
  uint32_t warmup;     // calls of a key before it is tried: a trial costs several calls, which a rare key never repays
  uint32_t trials;     // trials that must all give identical results
  bool must_be_faster; // whether the candidate must also take less time, summed over the trials
};

// The outcome of one trial, in nanoseconds.
struct Trial {
  bool identical;
  int64_t baseline, candidate;
};

enum class Decision : uint8_t { baseline, candidate, trial };

// A choice that a fixed number of trials settles.
class TriedChoice {
public:
  // What the next call runs. After `trial` the caller runs both and calls record(); until then other calls run the baseline.
  Decision next(const AutotuneRule &rule) {
    if (settled_) return candidate_ ? Decision::candidate : Decision::baseline;
    if (trying_ || calls_++ < rule.warmup) return Decision::baseline;
    trying_ = true;
    return Decision::trial;
  }
  void record(const AutotuneRule &rule, const Trial &trial) {
    trying_ = false;
    trials_++;
    baseline_ += trial.baseline;
    candidate_time_ += trial.candidate;
    settled_ = !trial.identical || trials_ == rule.trials;
    candidate_ = trial.identical && trials_ == rule.trials && (!rule.must_be_faster || candidate_time_ < baseline_);
  }
  // Settles on the baseline.
  void reject() { settled_ = true; }

  bool settled() const { return settled_; }
  bool uses_candidate() const { return candidate_; }

private:
  uint32_t calls_ = 0, trials_ = 0;
  bool trying_ = false, settled_ = false, candidate_ = false;
  int64_t baseline_ = 0, candidate_time_ = 0;
};

// A choice by the times of ordinary calls, which is never settled: both ways must give acceptable results.
class MeasuredChoice {
public:
  // Whether the next call runs the candidate. A baseline shorter than `least` nanoseconds is kept. From time to time, and
  // sooner in the beginning, the other way is measured again, so that no mistake lasts.
  bool next(int64_t least) const {
    constexpr uint32_t measured_again_every = 64;
    if ((!baseline_.known() && !baseline_.soon_known()) || baseline_.nanoseconds < least) return false;
    const bool faster = !candidate_.known() || candidate_.nanoseconds < baseline_.nanoseconds;
    const uint32_t calls = baseline_.calls + candidate_.calls;
    const bool again = calls < measured_again_every ? std::has_single_bit(calls) : calls % measured_again_every == 0;
    return faster != again;
  }
  // Nanoseconds of the baseline; 0 if it has not run.
  int64_t baseline() const { return baseline_.nanoseconds; }
  void record(bool candidate, int64_t nanoseconds) { (candidate ? candidate_ : baseline_).add(nanoseconds); }

private:
  // Other processes slow calls down but never speed them up: a shorter time is believed at once, a longer one raises the
  // estimate by an eighth at most, since threads that start or change processors slow the next few calls down.
  struct Estimate {
    int64_t nanoseconds = 0;
    uint32_t calls = 0;

    bool known() const { return calls >= 4; }
    // Of a long call, which repeating costs more. The first call of a kernel may take long for other reasons.
    bool soon_known() const { return calls >= 2 && nanoseconds >= 10'000'000; }
    void add(int64_t took) {
      nanoseconds = calls == 0 ? took : std::min(nanoseconds + nanoseconds / 8, took);
      calls++;
    }
  };
  Estimate baseline_, candidate_;
};

// The choices by key. Once there are `most_keys`, further keys run the baseline. Thread-safe: whether a stream's worker or
// a thread that waits runs a kernel, the choice is the same.
template <class Key> class Autotuner {
public:
  explicit Autotuner(const AutotuneRule &rule, size_t most_keys = 4096) : rule_(rule), most_keys_(most_keys) {}

  Decision decide(const Key &key) {
    const std::lock_guard lock(mutex_);
    TriedChoice *choice = find(key);
    return choice ? choice->next(rule_) : Decision::baseline;
  }
  // Returns whether further calls run the candidate.
  bool record(const Key &key, const Trial &trial) {
    const std::lock_guard lock(mutex_);
    TriedChoice &choice = choices_.at(key);
    choice.record(rule_, trial);
    return choice.uses_candidate();
  }
  void reject(const Key &key) {
    const std::lock_guard lock(mutex_);
    choices_.at(key).reject();
  }
  // Whether the candidate computes the call. `run_trial` returns a Trial and is called, without the lock, when one is due.
  template <class RunTrial> bool use_candidate(const Key &key, const RunTrial &run_trial) {
    const Decision decision = decide(key);
    return decision == Decision::trial ? record(key, run_trial()) : decision == Decision::candidate;
  }
  // The keys that were tried, and whether the candidate computes them.
  std::vector<std::pair<Key, bool>> report() const {
    std::vector<std::pair<Key, bool>> out;
    const std::lock_guard lock(mutex_);
    for (const auto &[key, choice] : choices_)
      if (choice.settled()) out.emplace_back(key, choice.uses_candidate());
    return out;
  }

private:
  TriedChoice *find(const Key &key) {
    const auto found = choices_.find(key);
    if (found != choices_.end()) return &found->second;
    return choices_.size() < most_keys_ ? &choices_[key] : nullptr;
  }

  const AutotuneRule rule_;
  const size_t most_keys_;
  mutable std::mutex mutex_;
  std::map<Key, TriedChoice> choices_;
};

} // namespace tb::ops
