// places.cpp -- the memory of a plan: one piece of driver memory, which the heap gets when the plan ends.
#include <algorithm>

#include "plan/planner.h"

namespace tb::allocator {

tb_status Planner::make_places(Program &program) {
  if (!program.placed) return TB_OK;
  uint64_t size = program.bytes;
  if (store_.policy.growing) {
    if (tb_status status = find_page(); status != TB_OK) return status;
    size = (size + store_.page - 1) / store_.page * store_.page;
  }
  {
    std::lock_guard guard(store_.lock);
    if (!store_.admits(size)) return TB_OUT_OF_MEMORY;
  }
  void *base = nullptr;
  tb_status status = store_.policy.growing ? driver_.api->vmm_reserve(driver_.self, size, store_.page, nullptr, &base)
                                           : source_.allocate(size, &base);
  if (status != TB_OK) return status;
  auto *start = static_cast<char *>(base);
  auto undo = [&] {
    std::unique_lock guard(store_.lock);
    release_records(program);
    store_.segments.erase(start);
    guard.unlock();
    program.segment = nullptr;
    if (store_.policy.growing)
      driver_.api->vmm_release(driver_.self, base, size);
    else
      source_.free(base);
  };
  try {
    std::lock_guard guard(store_.lock);
    Segment &segment = store_.segments[start];
    segment.heap = &heap_;
    segment.base = start;
    segment.size = size;
    segment.growing = store_.policy.growing;
    segment.pool = &store_.pool_of(store_.default_stream, true);
    for (auto &pool : program.pools) store_.pool_of(pool->stream, true); // so that dissolve() need not create any
    if (segment.growing)
      segment.pages.reset(static_cast<tb_physical **>(calloc(size / store_.page, sizeof(tb_physical *))));
    if (segment.growing && !segment.pages) throw std::bad_alloc();
    for (uint32_t at = 0; at < program.entries.size(); ++at) {
      Program::Entry &entry = program.entries[at];
      if (!entry.placed) continue;
      entry.block = store_.new_block(segment, *program.pools[entry.stream], start + entry.offset, entry.size);
      entry.block->bin = at;
    }
    segment.first = store_.new_block(segment, *segment.pool, start, size);
    segment.first->state = BlockState::planned;
    segment.placed = program.shared_from_this();
    program.segment = &segment;
  } catch (const std::bad_alloc &) {
    undo();
    throw;
  }
  if (store_.policy.growing) status = pages_.fill(*program.segment);
  if (status != TB_OK) {
    undo();
    return status;
  }
  std::lock_guard guard(store_.lock);
  ++store_.counters.device_alloc;
  store_.counters.add(true, Count::segment, 1);
  store_.counters.add(true, Count::reserved_bytes, static_cast<int64_t>(size));
  store_.history.record(Action::map, base, size, store_.default_stream);
  return TB_OK;
}

void Planner::release_records(Program &program) noexcept {
  for (Program::Entry &entry : program.entries)
    if (tb_block *block = entry.block; block && block->state == BlockState::unused) {
      entry.block = nullptr;
      store_.records.release(block);
    }
}

void Planner::dissolve(Program &program) {
  if (!program.segment) return;
  std::lock_guard guard(store_.lock);
  Segment &segment = *program.segment;
  std::vector<tb_block *> allocated, gaps;
  for (const Program::Entry &entry : program.entries)
    if (entry.block && entry.block->state != BlockState::unused) allocated.push_back(entry.block);
  std::sort(allocated.begin(), allocated.end(), [](tb_block *a, tb_block *b) { return a->pointer < b->pointer; });
  gaps.reserve(allocated.size() + 1);
  try {
    char *at = segment.base;
    for (size_t index = 0; index <= allocated.size(); ++index) {
      char *to = index < allocated.size() ? allocated[index]->pointer : segment.base + segment.size;
      gaps.push_back(at < to ? store_.new_block(segment, *segment.pool, at, static_cast<uint64_t>(to - at)) : nullptr);
      if (index < allocated.size()) at = to + allocated[index]->size;
    }
  } catch (const std::bad_alloc &) {
    for (tb_block *gap : gaps)
      if (gap) store_.records.release(gap);
    throw;
  }
  release_records(program);
  program.segment = nullptr;
  segment.placed.reset();
  store_.records.release(std::exchange(segment.first, nullptr));
  tb_block *last = nullptr;
  auto append = [&](tb_block *block) {
    block->previous = last;
    block->next = nullptr;
    (last ? last->next : segment.first) = block;
    last = block;
  };
  for (size_t index = 0; index <= allocated.size(); ++index) {
    if (gaps[index]) {
      gaps[index]->state = BlockState::reserved;
      append(gaps[index]);
    }
    if (index == allocated.size()) break;
    tb_block *block = allocated[index];
    block->pool = &store_.pool_of(block->pool->stream, is_large(*block));
    if (block->state == BlockState::planned) block->state = BlockState::allocated;
    append(block);
  }
  for (tb_block *gap : gaps)
    if (gap) store_.insert(gap);
}

tb_status Planner::drop_program(Plan &plan) {
  std::shared_ptr<Program> program = plan.program;
  if (!program) return TB_OK;
  tb_status status = pages_.synchronize();
  dissolve(*program);
  std::lock_guard guard(store_.lock);
  plan.program.reset();
  if (plan.state == Plan::State::replaying) plan.state = Plan::State::diverged;
  return status;
}

bool Planner::release_memory() {
  bool found = false;
  for (auto &plan : plans_) {
    if (!plan->program || !plan->program->segment) continue;
    if (tb_status status = drop_program(*plan); status != TB_OK) {
      std::lock_guard guard(store_.lock);
      events_.note_failure(status);
    }
    found = true;
  }
  return found;
}

tb_status Planner::reset_plan(Plan &plan) {
  std::lock_guard growth(growth_);
  if (plan.open)
    return fail(TB_FAILED_PRECONDITION, source_.device(), "plan",
                "a step of the plan is open: reset the plan between steps");
  tb_status status = drop_program(plan);
  std::lock_guard guard(store_.lock);
  plan.state = Plan::State::recording;
  plan.recorded = plan.failed = 0;
  plan.patience = Plan::least_patience;
  plan.compiled.reset();
  return status;
}

} // namespace tb::allocator
