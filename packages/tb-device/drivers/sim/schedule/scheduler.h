// Chooses the order in which all work of a driver runs, and runs it.
//
// Planning (planner.cpp) and execution (executor.cpp) are separate. Each call of the driver is a point of choice: the
// scheduler then appends steps to the plan under its lock, by the policy (policy.h) and by what host threads wait for,
// as if each step were done at once. Another thread executes the plan in that order. So the choices depend on the calls
// alone and never on how fast work runs; order_log.h records them.
//
// Host functions may block until something else happens. When one has run for `patience_limit`, a clock thread starts
// another thread that takes over the rest of the plan: steps that wait for the blocked stream are skipped, the others
// run. The clock thread also runs everything that is queued if the driver was not called for the time of the option
// "idle".
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "drivers/sim/device/options.h"
#include "drivers/sim/memory/device_memory.h"
#include "drivers/sim/queue/operation.h"
#include "drivers/sim/queue/queue.h"
#include "drivers/sim/schedule/order_log.h"
#include "drivers/sim/schedule/policy.h"

namespace tb::drivers::sim {

class Scheduler final : public QueueTails {
public:
  static constexpr std::chrono::milliseconds patience_limit{50};
  // A query waits this long for work that is chosen already, so that its answer does not depend on chance.
  static constexpr std::chrono::microseconds glance{200};

  struct Target {
    std::shared_ptr<Queue> queue;
    uint64_t position;
  };

  Scheduler(const tb_host *host, const Options &options, Memory &memory);
  ~Scheduler(); // runs everything first
  Scheduler(const Scheduler &) = delete;
  Scheduler &operator=(const Scheduler &) = delete;

  std::shared_ptr<Queue> create_queue(Device &device);
  void retire_queue(const std::shared_ptr<Queue> &queue); // its work completes; its failure goes to its device
  // Gives the position after the operation. Waits for room when the queue is full, except in the queue's own work:
  // TB_FAILED_PRECONDITION then.
  tb_status enqueue(const std::shared_ptr<Queue> &queue, std::shared_ptr<Operation> operation, uint64_t *position);
  // A closure's storage was filled or cancelled. Takes the caller's reference, so that the last reference ends on a
  // thread of the driver.
  void commit(std::shared_ptr<Operation> operation);
  // Runs `function` in the order of the plan, before everything that is chosen later.
  void after_plan(std::function<void()> function);
  // Returns when every target is reached or its device is lost. `device`: counted as waiting for all of it.
  void wait(const std::vector<Target> &targets, Device *device = nullptr);
  bool query(const Target &target); // whether it is reached; lets some steps run
  bool reached(const Target &target);
  uint64_t tail_of(const Queue &queue);
  std::vector<Target> tails_of(const Device &device); // also of destroyed streams
  std::vector<QueueTail> tails() override;
  // Runs what can run without the host, for at most `limit`. True: nothing is left.
  bool drain(std::chrono::milliseconds limit);
  // Drops the work of a lost device and makes its handles fail for ever.
  void reset(Device &device);

  // Whether the calling thread is inside a function of this queue, or of a queue of this device.
  static bool inside(const Queue &queue);
  static bool inside(const Device &device);
  static bool inside_any();

  uint64_t steps();
  std::string schedule();
  // "seed=3 schedule=...", and the same for the end of a failure's text, where a long one is only referred to.
  std::string description();
  std::string suffix();
  void note_problem(std::string text);
  std::vector<std::string> problems();

private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  enum class Call { enqueue, query, wait, other };

  // A step of the plan: the first operation of a queue that is not planned yet, or a function.
  struct Step {
    std::shared_ptr<Queue> queue;
    std::function<void()> function;
    bool loses = false; // the device is lost at this step
  };

  // ---- planner.cpp, with the lock held ----
  void choose(Call call);
  void plan(Queue &queue);
  void plan_everything(Policy &policy);
  void meet_demands();
  void plan_replayed();
  bool replay_left() const { return following_ && replayed_ < replay_.size(); }
  void stop_replay(const char *why);
  bool can_plan(const Queue &queue) const;
  std::vector<Queue *> runnable() const;
  std::vector<Queue *> needed();

  // ---- executor.cpp ----
  void run_plan(uint64_t number);
  std::list<Step>::iterator next_step();
  void execute_function(Lock &lock, Step &step);
  void execute(Lock &lock, Step &step);
  tb_status run_operation(Operation &operation, Run &run, bool lost);
  void keep_failure(Queue &queue, uint64_t position, const Operation &operation, tb_status status, const char *text);
  void watch();
  void start_runner();
  void start_clock();
  void join_left(Lock &lock);
  bool stalled() const;
  void let_idle_run();
  void finish(Queue &queue);
  void pace(uint64_t bytes) const;
  bool anything_left() const { return !plan_.empty() || !pending_.empty() || running_ > 0; }

  const tb_host *const host_;
  const Options options_;
  Memory &memory_;
  std::mutex mutex_;
  std::condition_variable work_, done_, tick_;

  // The work to choose from.
  std::map<uint32_t, std::shared_ptr<Queue>> pending_; // have work that is not planned; by number
  std::map<uint32_t, std::shared_ptr<Queue>> queues_;  // not retired, or not done
  std::list<Target> demands_;                          // what host threads wait for
  uint32_t queue_count_ = 0;
  uint64_t calls_ = 0, steps_ = 0;
  Policy policy_, idle_policy_; // apart, so that a pause of the host does not change the choices after it
  OrderLog order_log_;
  std::vector<OrderLog::Run> replay_;
  size_t replayed_ = 0;    // runs of it
  bool following_ = false; // a schedule was given, and has fitted so far
  std::vector<std::string> problems_;

  // Sleeps until the queue has reached a position or is lost. The runner wakes no thread before.
  void sleep_until(Lock &lock, Queue &queue, uint64_t position);
  template <class Done> void sleep_until_idle(Lock &lock, Done done); // looks again after each step
  uint32_t watchers_ = 0;                                             // threads that do

  // The chosen work, and its execution.
  std::list<Step> plan_;
  uint64_t scans_ = 0;
  uint32_t running_ = 0;                    // steps that run now
  uint64_t runner_ = 0;                     // the thread that takes steps; an older one leaves
  bool busy_ = false, in_function_ = false; // of the runner
  Clock::time_point busy_since_, last_event_;
  bool clock_sleeps_ = false, stopping_ = false;
  std::map<uint64_t, std::thread> runners_;
  std::vector<uint64_t> left_; // runners that have ended or are about to, to be joined
  std::thread clock_;
};

} // namespace tb::drivers::sim
