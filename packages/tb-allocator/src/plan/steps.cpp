// steps.cpp -- where steps begin and end, and what they ask for in between.
#include <algorithm>
#include <chrono>

#include "plan/planner.h"

namespace tb::allocator {
namespace {

constexpr auto now = std::chrono::steady_clock::now;

} // namespace

Planner &planner_of(Heap &heap) {
  auto make = [](Heap &one) -> std::unique_ptr<StepPlanner> { return std::make_unique<Planner>(one); };
  return static_cast<Planner &>(heap.planner(make));
}

Plan *Planner::plan(const std::string &name, uint32_t warmup) {
  std::lock_guard growth(growth_);
  auto found = std::find_if(plans_.begin(), plans_.end(), [&](auto &one) { return one->name == name; });
  if (found == plans_.end()) found = plans_.insert(found, std::make_shared<Plan>(name, warmup));
  return found->get();
}

tb_status Planner::begin_step(Plan &plan) {
  if (store_.policy.fixed)
    return fail(TB_UNSUPPORTED, source_.device(), "plan",
                "a graph's arena keeps its memory as it is: plan another arena");
  {
    std::lock_guard guard(store_.lock);
    if (paused()) return refuse_paused();
    if (step_)
      return fail(TB_FAILED_PRECONDITION, source_.device(), "plan",
                  ("the step \"" + step_->name + "\" has not ended: steps of one arena cannot overlap").c_str());
    step_ = &plan;
    plan.open = true;
  }
  tb_status status = TB_OK;
  if (plan.state == Plan::State::ready && plan.wait) {
    --plan.wait;
  } else if (plan.state == Plan::State::ready) {
    try {
      status = make_program(plan);
    } catch (...) {
      abandon_step(plan);
      throw;
    }
  }
  if (status == TB_OUT_OF_MEMORY) { // the step goes on without a plan; later ones try again
    status = TB_OK;
    plan.wait = plan.patience;
    plan.patience = std::min(2 * plan.patience, Plan::most_patience);
  }
  if (status != TB_OK) {
    abandon_step(plan);
    return status;
  }
  std::shared_ptr<Program> program = plan.program;
  if (program) program->begin(store_.lock);
  std::lock_guard guard(store_.lock);
  if (plan.state == Plan::State::diverged) {
    plan.state = program ? Plan::State::replaying : Plan::State::recording;
    if (!program) plan.recorded = 0; // its memory was needed elsewhere
  }
  if (plan.state == Plan::State::replaying && program->allocated) plan.state = Plan::State::diverged;
  if (plan.state == Plan::State::recording) plan.recording.clear();
  set_step_open(true);
  return TB_OK;
}

void Planner::abandon_step(Plan &plan) noexcept {
  std::lock_guard guard(store_.lock);
  step_ = nullptr;
  plan.open = false;
}

void Planner::end_step(Plan &plan, bool completed) noexcept {
  std::lock_guard guard(store_.lock);
  if (step_ != &plan) return;
  set_step_open(false);
  step_ = nullptr;
  plan.open = false;
  ++plan.figures.steps;
  if (plan.state == Plan::State::recording) {
    if (completed && ++plan.recorded >= plan.warmup) plan.state = Plan::State::ready;
    return;
  }
  if (plan.state == Plan::State::replaying && plan.program->cursor == plan.program->entries.size()) {
    ++plan.figures.replays;
    plan.failed = 0;
    plan.patience = Plan::least_patience;
    return;
  }
  if (plan.state == Plan::State::ready) return; // there was no memory for the places
  ++plan.figures.divergences;
  plan.state = Plan::State::diverged;
  if (++plan.failed < plan.patience) return;
  plan.failed = plan.recorded = 0;
  plan.patience = std::min(2 * plan.patience, Plan::most_patience);
  plan.state = Plan::State::recording;
}

tb_status Planner::make_program(Plan &plan) {
  auto begin = now();
  if (!plan.compiled) plan.compiled = std::make_shared<Program>(driver_, plan.recording.all(), plan.seconds);
  plan.figures.seconds = std::chrono::duration<double>(now() - begin).count();
  std::shared_ptr<Program> program = plan.compiled;
  std::lock_guard growth(growth_);
  if (tb_status status = drop_program(plan); status != TB_OK) return status;
  if (tb_status status = release_cached(); status != TB_OK) return status; // waits for the device too
  if (tb_status status = make_places(*program); status != TB_OK) return status;
  if (tb_status status = program->make_events(std::max(source_.device(), 0)); status != TB_OK) {
    dissolve(*program);
    return status;
  }
  std::lock_guard guard(store_.lock);
  plan.figures.allocations = program->entries.size();
  plan.figures.placed = program->placed;
  plan.figures.reserved = program->segment ? program->segment->size : 0;
  plan.figures.peak = program->peak;
  plan.figures.handovers = 0;
  plan.program = std::move(program);
  plan.compiled.reset();
  plan.state = Plan::State::replaying;
  return TB_OK;
}

tb_status Planner::allocate_in_step(uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block) {
  if (size == 0) return allocate_without_plan(size, stream, out_pointer, out_block);
  tb_stream *asked = stream ? stream : store_.default_stream;
  uint64_t rounded = round(size);
  tb_block *block = nullptr;
  std::vector<Program::Wait> waits;
  std::shared_ptr<Program> program;
  {
    HeapLock lock(store_, caches_, caches_.find());
    if (tb_status status = check_state(); status != TB_OK) [[unlikely]]
      return status;
    if (step_ && step_->state == Plan::State::replaying) {
      program = step_->program;
      if (program->next(rounded, asked, &block, &waits) == Program::Answer::diverged)
        step_->state = Plan::State::diverged;
      if (block) {
        count_planned(*block, size);
        ++step_->figures.hits;
        step_->figures.handovers += waits.size();
      }
    }
  }
  if (block) {
    tb_status status = TB_OK;
    for (const Program::Wait &wait : waits) {
      status = driver_.api->stream_wait_event(driver_.self, asked, wait.event);
      if (status != TB_OK) break;
      std::lock_guard guard(store_.lock);
      program->waited(block, wait);
    }
    if (status != TB_OK) {
      {
        std::lock_guard guard(store_.lock); // later places rely on the order that is missing now
        if (step_ && step_->program == program) step_->state = Plan::State::diverged;
      }
      free_planned(block);
      return status;
    }
    *out_pointer = block->pointer;
    *out_block = block;
    return TB_OK;
  }
  tb_status status = allocate_without_plan(size, stream, out_pointer, out_block);
  if (status != TB_OK) return status;
  std::lock_guard guard(store_.lock);
  try {
    if (step_ && step_->state == Plan::State::recording) step_->recording.allocated(*out_block, rounded, asked);
  } catch (const std::bad_alloc &) {
    step_->recording.clear(); // now less than the step: it will diverge, and be recorded again
  }
  return TB_OK;
}

void Planner::before_free(tb_block *block) noexcept {
  std::lock_guard guard(store_.lock);
  if (!step_ || step_->state != Plan::State::recording) return;
  Recorded *one = step_->recording.freed(block);
  try {
    for (Use *use = block->uses; one && use; use = use->next) one->uses.push_back(use->queue->stream);
  } catch (const std::bad_alloc &) {
    one->freed = Recorded::escapes; // then it gets no place
  }
}

void Planner::free_planned(tb_block *block) noexcept {
  Use *uses;
  std::shared_ptr<Program> program;
  const Program::Entry *entry = nullptr; // outlives the block's record
  uint64_t covers = 0;
  {
    std::lock_guard guard(store_.lock);
    uses = block->uses;
    program = std::static_pointer_cast<Program>(block->segment->placed);
    store_.history.record(uses ? Action::free_requested : Action::free, block->pointer, block->size,
                          block->pool->stream);
    if (uses && program->expects(block, uses)) { // the events of the program cover them
      store_.history.record(Action::free_completed, block->pointer, block->size, block->pool->stream);
      frees_.drop(std::exchange(uses, nullptr));
    }
    block->uses = nullptr;
    if (uses) {
      store_.counters.leave(is_large(*block), block->size);
      block->state = BlockState::pending;
    } else {
      store_.counters.free(is_large(*block), block->size, block->requested);
      entry = &program->entry_of(block);
      program->freed(block);
      covers = entry->freed_at;
    }
  }
  if (uses) return frees_.wait_for_uses(block, uses);
  for (uint32_t index = entry->events; index < entry->events_end; ++index) {
    Program::Event &event = program->event(index);
    // Without the lock: it waits for room when the stream's queue is full.
    if (driver_.api->event_record(driver_.self, event.handle, program->pools[event.stream]->stream) != TB_OK) continue;
    std::lock_guard guard(store_.lock);
    event.covers = std::max(event.covers, covers);
  }
}

void Planner::count_planned(tb_block &block, uint64_t requested) noexcept {
  block.requested = requested;
  store_.counters.allocate(is_large(block), block.size, requested);
  store_.history.record(Action::allocate, block.pointer, block.size, block.pool->stream);
}

} // namespace tb::allocator
