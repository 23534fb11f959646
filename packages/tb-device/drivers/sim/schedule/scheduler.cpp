// The calls of the driver's slots: queue work, wait for it, query it.
#include "drivers/sim/schedule/scheduler.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "drivers/common/error_text.h"
#include "drivers/common/host_wait.h"

namespace tb::drivers::sim {

Scheduler::Scheduler(const tb_host *host, const Options &options, Memory &memory)
    : host_(host), options_(options), memory_(memory), policy_(options.seed), idle_policy_(~options.seed),
      last_event_(Clock::now()) {
  if (host->option && host->option("schedule")) {
    following_ = true;
    if (!OrderLog::parse(options.schedule, &replay_))
      throw std::invalid_argument("option \"schedule\" of the sim driver is no schedule; accepted is what the driver "
                                  "printed after \"schedule=\", such as \"+3 0x2 +1 2\"");
  }
  Lock lock(mutex_);
  start_runner();
  try {
    start_clock();
  } catch (...) {
    stopping_ = true;
    work_.notify_all();
    lock.unlock();
    runners_.begin()->second.join();
    throw;
  }
}

Scheduler::~Scheduler() {
  Lock lock(mutex_);
  plan_everything(policy_);
  work_.notify_all();
  tick_.notify_all();
  sleep_until_idle(lock, [&] { return !anything_left(); });
  stopping_ = true;
  work_.notify_all();
  tick_.notify_all();
  lock.unlock();
  clock_.join();
  for (auto &[number, runner] : runners_) runner.join();
}

void Scheduler::sleep_until(Lock &lock, Queue &queue, uint64_t position) {
  while (queue.done < position && !queue.lost()) {
    queue.wake_at = std::min(queue.wake_at, position);
    done_.wait(lock);
  }
}

template <class Done> void Scheduler::sleep_until_idle(Lock &lock, Done done) {
  ++watchers_;
  done_.wait(lock, done);
  --watchers_;
}

std::shared_ptr<Queue> Scheduler::create_queue(Device &device) {
  Lock lock(mutex_);
  auto queue = std::make_shared<Queue>(device, queue_count_, policy_.new_rank());
  queue->generation = device.generation.load();
  queues_.emplace(queue->number, queue);
  ++queue_count_;
  return queue;
}

// The queue's last operation is done and no more will come.
void Scheduler::finish(Queue &queue) {
  if (auto failure = queue.failures.peek(UINT64_MAX)) queue.device.failures.keep(std::move(failure), 0);
  queues_.erase(queue.number);
}

void Scheduler::retire_queue(const std::shared_ptr<Queue> &queue) {
  Lock lock(mutex_);
  queue->retired = true;
  if (queue->done == queue->tail) finish(*queue);
  choose(Call::other);
}

tb_status Scheduler::enqueue(const std::shared_ptr<Queue> &queue, std::shared_ptr<Operation> operation,
                             uint64_t *position) {
  std::optional<HostWait> waiting; // outlives the lock: what the host gave up is not taken back with it held
  Lock lock(mutex_);
  const auto fits = [&] { return queue->units + operation->units <= Queue::room_units || queue->lost(); };
  if (!fits()) {
    if (inside(*queue))
      return fail(host_, TB_FAILED_PRECONDITION,
                  "the stream's queue is full, and the call comes from work of this very stream, which cannot "
                  "wait for itself. Queue less from inside the work, or on another stream");
    lock.unlock();
    waiting.emplace(host_);
    lock.lock();
    ++queue->waiting;
    const auto demand = demands_.insert(demands_.end(), {queue, queue->tail});
    choose(Call::wait);
    // Half of it at once: waking for each operation would cost more than running them.
    while (!fits()) sleep_until(lock, *queue, queue->done + queue->operations.size() / 2 + 1);
    demands_.erase(demand);
    --queue->waiting;
  }
  queue->units += operation->units;
  queue->operations.push_back(std::move(operation));
  ++queue->tail;
  pending_.emplace(queue->number, queue);
  if (position) *position = queue->tail;
  choose(Call::enqueue);
  return TB_OK;
}

void Scheduler::commit(std::shared_ptr<Operation> operation) {
  Lock lock(mutex_);
  operation->ready = true;
  operation.reset(); // with the lock held, so before it can run
  choose(Call::enqueue);
}

void Scheduler::after_plan(std::function<void()> function) {
  Lock lock(mutex_);
  if (plan_.empty() && running_ == 0) { // its turn is now
    ++running_;
    lock.unlock();
    try {
      function();
    } catch (...) {
      lock.lock();
      --running_;
      throw;
    }
    lock.lock();
    --running_;
    if (watchers_) done_.notify_all();
  } else {
    Step step;
    step.function = std::move(function);
    plan_.push_back(std::move(step));
  }
  choose(Call::other);
}

void Scheduler::wait(const std::vector<Target> &targets, Device *device) {
  const HostWait waiting(host_);
  Lock lock(mutex_);
  std::vector<std::list<Target>::iterator> demands;
  for (const Target &target : targets) {
    demands.push_back(demands_.insert(demands_.end(), target));
    if (!device) ++target.queue->waiting;
  }
  if (device) ++device->waiting;
  choose(Call::wait);
  for (const Target &target : targets) sleep_until(lock, *target.queue, target.position);
  for (const auto &demand : demands) demands_.erase(demand);
  if (device) --device->waiting;
  for (const Target &target : targets)
    if (!device) --target.queue->waiting;
}

bool Scheduler::query(const Target &target) {
  Lock lock(mutex_);
  choose(Call::query);
  Queue &queue = *target.queue;
  const auto done = [&] { return queue.done >= target.position; };
  // No work that takes long is waited for, and none is waited for twice.
  if (!done() && queue.planned >= target.position && (!busy_ || Clock::now() - busy_since_ < glance)) {
    queue.wake_at = std::min(queue.wake_at, target.position);
    done_.wait_for(lock, glance, done);
  }
  return done();
}

bool Scheduler::reached(const Target &target) {
  Lock lock(mutex_);
  return target.queue->done >= target.position;
}

uint64_t Scheduler::tail_of(const Queue &queue) {
  Lock lock(mutex_);
  return queue.tail;
}

std::vector<Scheduler::Target> Scheduler::tails_of(const Device &device) {
  Lock lock(mutex_);
  std::vector<Target> tails;
  for (const auto &[number, queue] : queues_)
    if (&queue->device == &device && !queue->lost()) tails.push_back({queue, queue->tail});
  return tails;
}

std::vector<QueueTail> Scheduler::tails() {
  Lock lock(mutex_);
  std::vector<QueueTail> tails;
  for (const auto &[number, queue] : queues_) tails.push_back({number, queue->tail});
  return tails;
}

bool Scheduler::drain(std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  if (!anything_left()) return true;
  plan_everything(policy_);
  work_.notify_all();
  ++watchers_;
  done_.wait_for(lock, limit, [&] { return plan_.empty() && running_ == 0; });
  --watchers_;
  return !anything_left();
}

void Scheduler::reset(Device &device) {
  Lock lock(mutex_);
  device.lost = true;
  done_.notify_all();
  plan_everything(policy_);
  work_.notify_all();
  sleep_until_idle(lock, [&] {
    return std::all_of(queues_.begin(), queues_.end(), [&](const auto &entry) {
      const Queue &queue = *entry.second;
      // What is reserved but not committed may stay: it can only be dropped.
      return &queue.device != &device || (queue.done == queue.planned && !can_plan(queue));
    });
  });
  device.generation.fetch_add(1);
  device.lost = false;
}

uint64_t Scheduler::steps() {
  Lock lock(mutex_);
  return steps_;
}

std::string Scheduler::schedule() {
  Lock lock(mutex_);
  return order_log_.text();
}

std::string Scheduler::description() { return "seed=" + std::to_string(options_.seed) + " schedule=" + schedule(); }

std::string Scheduler::suffix() {
  constexpr size_t longest = 400; // of a text that has room for about 900 characters
  const std::string whole = description();
  if (whole.size() <= longest) return "; " + whole;
  return "; seed=" + std::to_string(options_.seed) + " schedule=(long: in the log at close with TB_LOG=info)";
}

void Scheduler::note_problem(std::string text) {
  constexpr size_t most_entries = 100;
  Lock lock(mutex_);
  if (problems_.size() < most_entries) problems_.push_back(std::move(text));
}

std::vector<std::string> Scheduler::problems() {
  Lock lock(mutex_);
  return problems_;
}

} // namespace tb::drivers::sim
