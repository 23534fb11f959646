// The layer that makes chosen calls fail, late or hang, to test whether callers handle that.
//
//   slot=mem_alloc|stream_create   which functions count; all but close when not given
//   nth=7                 the call number 7, counted from 0 since the layer was armed ...
//   persistent=1          ... and every one after it
//   every=5               every fifth call: number 4, 9, 14 ...
//   probability=0.01,seed=3        each call with this probability; the same seed and order of calls choose the same ones
//   status=8              what it fails with; 13 (internal error) when not given
//   after=1               the call happens and then fails. Functions that give a result fail without happening all the
//                         same, for by rule E1 the caller gets nothing that it could give back
//   after=0               no call that fails happens. When not given, those that wait (stream_synchronize ...) do and
//                         then fail, and so do those that take something back (mem_free ...) unless the status is a
//                         refusal (rule E8): as with devices, and so that a program can be free of leaks at all
//   delay=MICROSECONDS    chosen calls begin later; they fail only if a status is given too
//   hang=SECONDS          chosen calls wait this long, or until the layer is armed again or disarmed; then as with delay
// A layer with none of nth, every, probability, delay and hang counts and lets everything pass.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <condition_variable>
#include <vector>

#include "layers/framework/layer.h"
#include "layers/framework/options.h"

namespace tb::layers {

class Fault : public LayerOf<Fault> {
public:
  static constexpr const char *name = "fault";
  Fault(const tb_host *host, OptionReader &options);

  struct Plan {
    enum class When { never, nth, every, probability, always } when = When::never;
    uint64_t number = 0; // of nth or every
    uint64_t chance = 0; // of 2^64
    uint64_t seed = 0;
    bool persistent = false;
    tb_status status = TB_OK; // TB_OK: chosen calls pass, late
    enum class Happens { fitting, never, always } happens = Happens::fitting;
    uint64_t delay_us = 0;
    double hang_seconds = 0;
    std::bitset<static_cast<size_t>(slot_count)> slots;
    std::string text; // as it was asked for
    // Counted since this plan was armed.
    mutable std::atomic<uint64_t> calls{0}, fired{0};

    explicit Plan(OptionReader &options);
    bool chooses(uint64_t call) const;
  };

  // Counts from 0 again. Any thread. Throws BadSpec and stays as it was.
  void arm(const std::string &options);
  void disarm() { arm(""); }
  uint64_t calls() const { return plan().calls.load(); } // to the chosen functions
  uint64_t fired() const { return plan().fired.load(); }

  template <Slot S, class... A> tb_status around(On<S>, Next next, A...) { return around_any(S, next); }

private:
  const Plan &plan() const { return *plan_.load(std::memory_order_acquire); }
  tb_status around_any(Slot slot, Next next);
  tb_status fire(const Plan &plan, Slot slot, uint64_t call, Next next);
  void wait(const Plan &plan);

  std::atomic<const Plan *> plan_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All plans ever armed: a call in another thread may still read an older one.
  std::vector<std::unique_ptr<const Plan>> plans_;
};

} // namespace tb::layers
