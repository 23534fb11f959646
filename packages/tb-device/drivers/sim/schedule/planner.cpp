// Plans which stream runs next, and when.
#include <algorithm>

#include "drivers/sim/schedule/scheduler.h"

namespace tb::drivers::sim {

// Everything here runs with the lock held. A step that is planned counts as done for further choices.

bool Scheduler::can_plan(const Queue &queue) const {
  const Operation *next = queue.next();
  if (!next || !next->ready) return false;
  return !next->source || next->source->planned >= next->source_position || queue.lost();
}

std::vector<Queue *> Scheduler::runnable() const {
  std::vector<Queue *> found;
  for (const auto &[number, queue] : pending_)
    if (can_plan(*queue)) found.push_back(queue.get());
  return found;
}

// The queues whose next step is needed for something that a host thread waits for.
std::vector<Queue *> Scheduler::needed() {
  std::vector<Queue *> found;
  std::vector<Target> open(demands_.begin(), demands_.end());
  ++scans_;
  while (!open.empty()) {
    const Target one = std::move(open.back());
    open.pop_back();
    Queue &queue = *one.queue;
    if (queue.planned >= one.position || queue.scan == scans_) continue;
    queue.scan = scans_;
    const Operation *next = queue.next();
    if (!next || !next->ready) continue;
    if (can_plan(queue)) {
      found.push_back(&queue);
    } else {
      open.push_back({next->source, next->source_position});
    }
  }
  return found;
}

void Scheduler::plan(Queue &queue) {
  ++steps_;
  order_log_.add(calls_, queue.number);
  const auto found = pending_.find(queue.number);
  Step step;
  step.queue = found->second;
  step.loses = steps_ == options_.lose_after;
  plan_.push_back(std::move(step));
  if (++queue.planned == queue.tail) pending_.erase(found);
}

void Scheduler::plan_everything(Policy &policy) {
  for (auto candidates = runnable(); !candidates.empty(); candidates = runnable()) plan(*policy.pick(candidates));
}

void Scheduler::meet_demands() {
  if (demands_.empty()) return;
  for (auto candidates = needed(); !candidates.empty(); candidates = needed()) {
    if (replay_left()) stop_replay("it leaves out work that a thread waits for");
    plan(*policy_.pick(!following_ && policy_.strays() ? runnable() : candidates));
  }
}

void Scheduler::stop_replay(const char *why) {
  following_ = false;
  problems_.push_back("the schedule does not fit this program after call " + std::to_string(calls_) + ": " + why);
  if (host_->log) host_->log(2, ("sim: " + problems_.back()).c_str());
}

// The steps that the given schedule has for this call.
void Scheduler::plan_replayed() {
  while (replay_left() && replay_[replayed_].call <= calls_) {
    OrderLog::Run &run = replay_[replayed_];
    const auto found = pending_.find(run.stream);
    if (found == pending_.end() || !can_plan(*found->second))
      return stop_replay("the stream that it names next cannot run");
    plan(*found->second);
    if (--run.count == 0) ++replayed_;
  }
}

void Scheduler::choose(Call call) {
  ++calls_;
  last_event_ = Clock::now();
  plan_replayed();
  uint64_t steps = 0;
  if (call == Call::enqueue && !following_) steps = policy_.steps_at_enqueue();
  if (call == Call::query && !replay_left()) steps = policy_.steps_at_query(); // polling ends also after a schedule
  for (; steps; --steps) {
    const auto candidates = runnable();
    if (candidates.empty()) break;
    plan(*policy_.pick(candidates));
  }
  meet_demands();
  if (!plan_.empty()) work_.notify_all();
  if (clock_sleeps_ && anything_left()) tick_.notify_all();
}

} // namespace tb::drivers::sim
