// places.cpp -- the memory of a plan: one piece of the driver's, and what becomes of it when the plan ends.
#include <algorithm>

#include "plan/plan.h"

namespace tb::allocator {

// With growth_ held, and after the device was waited for: from then on every stream may use the memory.
tb_status Heap::make_places(Program &program) {
  if (!program.placed) return TB_OK;
  uint64_t size = program.bytes;
  if (policy_.growing) {
    if (tb_status status = find_page(); status != TB_OK) return status;
    size = (size + page_ - 1) / page_ * page_;
  }
  if (!admits(size)) return TB_OUT_OF_MEMORY;
  void *base = nullptr;
  tb_status status = policy_.growing ? driver_.api->vmm_reserve(driver_.self, size, page_, nullptr, &base)
                                     : source_->allocate(size, &base);
  if (status != TB_OK) return status;
  auto *start = static_cast<char *>(base);
  auto undo = [&] {
    std::unique_lock guard(lock_);
    give_records_back(program);
    segments_.erase(start);
    guard.unlock();
    program.segment = nullptr;
    if (policy_.growing)
      driver_.api->vmm_release(driver_.self, base, size);
    else
      source_->free(base);
  };
  try {
    std::lock_guard guard(lock_);
    Segment &segment = segments_[start];
    segment.heap = this;
    segment.base = start;
    segment.size = size;
    segment.growing = policy_.growing;
    segment.pool = &pool_of(default_stream_, true);
    for (auto &pool : program.pools) pool_of(pool->stream, true); // dissolve needs them, and must not fail for them
    if (segment.growing) segment.pages.reset(static_cast<tb_physical **>(calloc(size / page_, sizeof(tb_physical *))));
    if (segment.growing && !segment.pages) throw std::bad_alloc();
    for (uint32_t at = 0; at < program.entries.size(); ++at) {
      Program::Entry &entry = program.entries[at];
      if (!entry.placed) continue;
      entry.block = new_block(segment, *program.pools[entry.stream], start + entry.offset, entry.size);
      entry.block->bin = at;
    }
    segment.first = new_block(segment, *segment.pool, start, size);
    segment.first->state = BlockState::planned;
    segment.program = program.shared_from_this();
    program.segment = &segment;
  } catch (const std::bad_alloc &) {
    undo();
    throw;
  }
  if (policy_.growing) status = fill_run({program.segment, 0, size / page_});
  if (status != TB_OK) {
    undo();
    return status;
  }
  std::lock_guard guard(lock_);
  ++counters_.device_alloc;
  counters_.add(true, Count::segment, 1);
  counters_.add(true, Count::reserved_bytes, static_cast<int64_t>(size));
  history_.record(Action::map, base, size, default_stream_);
  return TB_OK;
}

// Of what is not in anybody's hands.
void Heap::give_records_back(Program &program) noexcept {
  for (Program::Entry &entry : program.entries)
    if (tb_block *block = entry.block; block && block->state == BlockState::unused) {
      entry.block = nullptr;
      blocks_.give(block);
    }
}

// Live blocks become the heap's as they are, and the rest of the memory becomes free blocks of it. With growth_ held,
// after the device was waited for. Throws std::bad_alloc, and nothing has changed.
void Heap::dissolve(Program &program) {
  if (!program.segment) return;
  std::lock_guard guard(lock_);
  Segment &segment = *program.segment;
  std::vector<tb_block *> live, gaps;
  for (const Program::Entry &entry : program.entries)
    if (entry.block && entry.block->state != BlockState::unused) live.push_back(entry.block);
  std::sort(live.begin(), live.end(), [](tb_block *a, tb_block *b) { return a->pointer < b->pointer; });
  gaps.reserve(live.size() + 1);
  try {
    char *at = segment.base;
    for (size_t index = 0; index <= live.size(); ++index) {
      char *to = index < live.size() ? live[index]->pointer : segment.base + segment.size;
      gaps.push_back(at < to ? new_block(segment, *segment.pool, at, static_cast<uint64_t>(to - at)) : nullptr);
      if (index < live.size()) at = to + live[index]->size;
    }
  } catch (const std::bad_alloc &) {
    for (tb_block *gap : gaps)
      if (gap) blocks_.give(gap);
    throw;
  }
  give_records_back(program);
  program.segment = nullptr;
  segment.program.reset();
  blocks_.give(std::exchange(segment.first, nullptr));
  tb_block *last = nullptr;
  auto append = [&](tb_block *block) {
    block->previous = last;
    block->next = nullptr;
    (last ? last->next : segment.first) = block;
    last = block;
  };
  for (size_t index = 0; index <= live.size(); ++index) {
    if (gaps[index]) {
      gaps[index]->state = BlockState::held;
      append(gaps[index]);
    }
    if (index == live.size()) break;
    tb_block *block = live[index];
    block->pool = &pool_of(block->pool->stream, is_large(*block));
    if (block->state == BlockState::planned) block->state = BlockState::live;
    append(block);
  }
  for (tb_block *gap : gaps)
    if (gap) put(gap);
}

tb_status Heap::drop_program(Plan &plan) {
  std::shared_ptr<Program> program = plan.program;
  if (!program) return TB_OK;
  tb_status status = synchronize();
  dissolve(*program);
  std::lock_guard guard(lock_);
  plan.program.reset();
  if (plan.state == Plan::State::replaying) plan.state = Plan::State::diverged;
  return status;
}

// For a request that found no memory. With growth_ held.
bool Heap::drop_idle_places() {
  bool found = false;
  for (auto &plan : plans_) {
    if (!plan->program || !plan->program->segment) continue;
    if (tb_status status = drop_program(*plan); status != TB_OK) {
      std::lock_guard guard(lock_);
      note_failure(status);
    }
    found = true;
  }
  return found;
}

tb_status Heap::reset_plan(Plan &plan) {
  std::lock_guard growth(growth_);
  if (plan.open)
    return fail(TB_FAILED_PRECONDITION, device(), "plan", "a step of the plan is open: reset the plan between steps");
  tb_status status = drop_program(plan);
  std::lock_guard guard(lock_);
  plan.state = Plan::State::recording;
  plan.recorded = plan.failed = 0;
  plan.patience = Plan::least_patience;
  plan.compiled.reset();
  return status;
}

tb_block *Heap::find_planned(const Program &program, const char *address) noexcept {
  for (const Program::Entry &entry : program.entries) {
    tb_block *block = entry.block;
    if (block && block->state == BlockState::planned && block->pointer <= address &&
        address < block->pointer + block->size)
      return block;
  }
  return nullptr;
}

// Copies of the blocks in anybody's hands and of the gaps between, as a row, for a snapshot. With lock_ held.
std::vector<tb_block> Heap::planned_row(const Segment &segment) {
  std::vector<tb_block> row;
  std::vector<const tb_block *> live;
  for (const Program::Entry &entry : segment.program->entries)
    if (entry.block && entry.block->state != BlockState::unused) live.push_back(entry.block);
  std::sort(live.begin(), live.end(), [](auto *a, auto *b) { return a->pointer < b->pointer; });
  char *at = segment.base;
  auto gap = [&](char *to) {
    if (at == to) return;
    tb_block &free = row.emplace_back();
    free.pointer = at;
    free.size = static_cast<uint64_t>(to - at);
    free.segment = segment.first->segment;
    free.state = BlockState::free;
  };
  row.reserve(2 * live.size() + 1);
  for (const tb_block *block : live) {
    gap(block->pointer);
    row.push_back(*block);
    if (block->state == BlockState::planned) row.back().state = BlockState::live;
    at = block->pointer + block->size;
  }
  gap(segment.base + segment.size);
  for (size_t index = 0; index < row.size(); ++index)
    row[index].next = index + 1 < row.size() ? &row[index + 1] : nullptr;
  return row;
}

} // namespace tb::allocator
