// The scheduler's threads: one runs the plan, one watches the clock.
#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "drivers/common/signals.h"
#include "drivers/sim/schedule/scheduler.h"

namespace tb::drivers::sim {

namespace {

thread_local const Queue *inside_queue = nullptr;

constexpr std::chrono::milliseconds tick{5};

// Signals that a thread raises itself, by a bad address for instance, are not blocked.
constexpr auto own_signals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};

// Lets functions of the host touch device memory for its scope.
class Window {
public:
  Window(Memory &memory, bool opens) : memory_(memory), opens_(opens) {
    if (opens_) memory_.open();
  }
  ~Window() {
    if (opens_) memory_.shut();
  }
  Window(const Window &) = delete;
  Window &operator=(const Window &) = delete;

private:
  Memory &memory_;
  const bool opens_;
};

} // namespace

bool Scheduler::inside(const Queue &queue) { return inside_queue == &queue; }
bool Scheduler::inside(const Device &device) { return inside_queue && &inside_queue->device == &device; }
bool Scheduler::inside_any() { return inside_queue != nullptr; }

// With the lock held.
void Scheduler::start_runner() {
  SignalsBlocked blocked(own_signals);
  const uint64_t number = runner_ + 1;
  runners_.emplace(number, std::thread([this, number] { run_plan(number); }));
  runner_ = number;
  busy_ = in_function_ = false;
}

void Scheduler::start_clock() {
  SignalsBlocked blocked(own_signals);
  clock_ = std::thread([this] { watch(); });
}

// The first step of the plan that may run now. Without a blocked function that is the plan's first.
std::list<Scheduler::Step>::iterator Scheduler::next_step() {
  ++scans_;
  for (auto step = plan_.begin(); step != plan_.end(); ++step) {
    if (!step->queue) return step;
    Queue &queue = *step->queue;
    if (queue.scan == scans_) continue; // an earlier step of it has to wait
    queue.scan = scans_;
    if (queue.running) continue;
    const Operation &operation = *queue.operations.front();
    if (!operation.source || operation.source->done >= operation.source_position || queue.lost()) return step;
  }
  return plan_.end();
}

void Scheduler::run_plan(uint64_t number) {
  pthread_setname_np(pthread_self(), "tb-sim");
  Lock lock(mutex_);
  while (number == runner_) {
    const auto next = next_step();
    if (next == plan_.end()) {
      if (stopping_ && plan_.empty()) return;
      work_.wait(lock);
      continue;
    }
    Step step = std::move(*next);
    plan_.erase(next);
    ++running_;
    busy_ = true;
    busy_since_ = Clock::now();
    if (step.queue) {
      execute(lock, step);
    } else {
      lock.unlock();
      step.function();
      lock.lock();
    }
    --running_;
    if (number == runner_) busy_ = in_function_ = false;
    last_event_ = Clock::now();
    if (watchers_) done_.notify_all();
  }
  left_.push_back(number);
  tick_.notify_all();
  work_.notify_all(); // the new runner takes the steps that waited for this one
}

void Scheduler::execute(Lock &lock, Step &step) {
  Queue &queue = *step.queue;
  queue.running = true;
  std::shared_ptr<Operation> operation = std::move(queue.operations.front());
  if (step.loses) queue.device.lost = true; // waiting threads are woken after the step
  const bool lost = queue.lost(), function = operation->is_function();
  in_function_ = function;
  char text[600] = "";
  Run run = {memory_, queue, queue.done + 1, {}};
  run.context.struct_size = sizeof run.context;
  run.context.device = queue.device.number;
  run.context.stream = operation->stream->handle();
  run.context.waiters = queue.waiting + queue.device.waiting;
  run.context.error_text = text;
  run.context.error_capacity = sizeof text;
  const uint64_t units = operation->units;
  lock.unlock();
  if (step.loses && host_->log) host_->log(1, "sim: the device is lost, as the option lose_after asks");
  pace(lost ? 0 : operation->bytes());
  {
    Window window(memory_, function);
    inside_queue = &queue;
    const bool left_out = operation->needs_success() && queue.failures.leaves_out(queue.number, run.position);
    const tb_status status = left_out ? TB_OK : run_operation(*operation, run, lost);
    text[sizeof text - 1] = 0;
    if (status != TB_OK) keep_failure(queue, run.position, *operation, status, text);
    operation.reset(); // destroys a closure, which may touch what it used
    inside_queue = nullptr;
  }
  lock.lock();
  queue.operations.pop_front();
  queue.units -= units;
  queue.running = false;
  ++queue.done;
  if (queue.done >= queue.wake_at || step.loses) {
    queue.wake_at = UINT64_MAX; // threads that wait for a later position set it again
    done_.notify_all();
  }
  if (queue.done == queue.tail && queue.retired) finish(queue);
}

tb_status Scheduler::run_operation(Operation &operation, Run &run, bool lost) {
  try {
    if (!lost) return operation.run(run);
    operation.drop(run);
    return TB_OK; // every call on the device says that it is lost
  } catch (const std::bad_alloc &) {
    run.explain("out of host memory");
    return TB_OUT_OF_MEMORY;
  } catch (const std::exception &error) {
    run.explain(error.what());
  } catch (...) {
    run.explain("an exception of unknown type");
  }
  return TB_UNKNOWN;
}

void Scheduler::keep_failure(Queue &queue, uint64_t position, const Operation &operation, tb_status status,
                             const char *text) {
  auto failure = std::make_shared<Failure>();
  failure->status = status;
  char nothing[64];
  std::snprintf(nothing, sizeof nothing, "failed with status %d and no text", status);
  const std::string what = std::string(operation.name()).substr(0, 60) + ": " + (text[0] ? text : nothing);
  if (!operation.is_function()) note_problem(what + " (stream " + std::to_string(queue.number) + ")");
  std::snprintf(failure->text, sizeof failure->text, "%s%s", what.c_str(), suffix().c_str());
  queue.failures.keep(std::move(failure), position);
}

void Scheduler::pace(uint64_t bytes) const {
  std::chrono::nanoseconds time = std::chrono::microseconds(options_.latency);
  if (options_.bandwidth && bytes)
    time += std::chrono::nanoseconds(
        static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(options_.bandwidth)));
  if (time.count() > 0) std::this_thread::sleep_for(time);
}

// The runner is inside a function that has had its time.
bool Scheduler::stalled() const { return in_function_ && Clock::now() - busy_since_ > patience_limit; }

void Scheduler::join_left(Lock &lock) {
  std::vector<std::thread> ended;
  for (const uint64_t number : left_) {
    ended.push_back(std::move(runners_.at(number)));
    runners_.erase(number);
  }
  left_.clear();
  lock.unlock();
  for (std::thread &runner : ended) runner.join();
  lock.lock();
}

void Scheduler::let_idle_run() {
  std::chrono::milliseconds limit(options_.idle);
  if (replay_left()) limit += std::chrono::seconds(1); // what it names may be a moment away
  if (pending_.empty() || Clock::now() - last_event_ < limit || (busy_ && !stalled())) return;
  if (next_step() != plan_.end()) return; // there is something to do already
  if (replay_left() && !runnable().empty()) stop_replay("nobody has called the driver for a second");
  plan_everything(idle_policy_);
  work_.notify_all();
}

void Scheduler::watch() {
  pthread_setname_np(pthread_self(), "tb-sim-clock");
  Lock lock(mutex_);
  while (!stopping_) {
    if (!left_.empty()) {
      join_left(lock);
    } else if (!anything_left()) {
      clock_sleeps_ = true;
      tick_.wait(lock);
      clock_sleeps_ = false;
    } else {
      tick_.wait_for(lock, tick);
      let_idle_run();
      if (stalled() && next_step() != plan_.end()) start_runner();
    }
  }
}

} // namespace tb::drivers::sim
