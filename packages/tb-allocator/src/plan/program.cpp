// program.cpp -- serving a step by position.
#include "plan/program.h"

#include <algorithm>
#include <bit>

namespace tb::allocator {
namespace {

template <class Visit> void each_bit(uint64_t bits, Visit visit) {
  for (; bits; bits &= bits - 1) visit(static_cast<uint32_t>(std::countr_zero(bits)));
}

} // namespace

Program::~Program() {
  for (auto *events : {&events_, &begin_})
    for (const Event &event : *events)
      if (event.handle) driver.api->event_destroy(driver.self, event.handle);
}

tb_status Program::make_events(int32_t device) {
  for (auto *events : {&events_, &begin_})
    for (Event &event : *events)
      if (!event.handle && (events != &begin_ || ordered_ >> event.stream & 1))
        if (tb_status status = driver.api->event_create(driver.self, device, 0, &event.handle); status != TB_OK)
          return status;
  return TB_OK;
}

// Recording fails for a stream of another device than the events'. Its work cannot be waited for, so the steps diverge,
// and are counted.
void Program::begin(Lock &lock) {
  uint64_t at;
  {
    std::lock_guard guard(lock);
    cursor = 0;
    at = begin_at_ = ++clock_;
  }
  for (Event &event : begin_) {
    if (!(ordered_ >> event.stream & 1)) continue;
    if (driver.api->event_record(driver.self, event.handle, pools[event.stream]->stream) != TB_OK) continue;
    std::lock_guard guard(lock);
    event.covers = at;
  }
}

Program::Answer Program::next(uint64_t size, const tb_stream *stream, tb_block **out, std::vector<Wait> *waits) {
  if (cursor == entries.size()) return Answer::diverged;
  Entry &entry = entries[cursor];
  if (entry.size != size || pools[entry.stream]->stream != stream) return Answer::diverged;
  if (!entry.placed) {
    ++cursor;
    return Answer::unplaced;
  }
  for (uint32_t at = entry.after; at < entry.after_end; ++at)
    if (entries[after_[at]].block->state != BlockState::unused) return Answer::diverged;
  auto need = [&](uint32_t of, uint64_t time, const Event *event) {
    if (known(entry.stream, of) >= time) return true;
    for (const Wait &wait : *waits)
      if (wait.stream == of && wait.covers >= time) return true;
    if (!event || event->covers < time) return false;
    waits->push_back({event->handle, of, event->covers});
    return true;
  };
  bool good = true;
  each_bit(entry.earlier, [&](uint32_t of) { good = good && need(of, begin_at_, &begin_[of]); });
  for (uint32_t at = entry.needs; good && at < entry.needs_end; ++at) {
    const Need &one = needs_[at];
    good = need(one.stream, entries[one.entry].freed_at, one.event == none ? nullptr : &events_[one.event]);
  }
  if (!good) return Answer::diverged;
  handovers += waits->size();
  entry.block->state = BlockState::planned;
  ++cursor;
  ++allocated;
  *out = entry.block;
  return Answer::served;
}

void Program::waited(const tb_block *block, const Wait &wait) noexcept {
  uint64_t &time = known(entry_of(block).stream, wait.stream);
  time = std::max(time, wait.covers);
}

void Program::freed(tb_block *block) noexcept {
  block->state = BlockState::unused;
  block->uses = nullptr;
  entries[block->bin].freed_at = ++clock_;
  --allocated;
}

bool Program::expects(const tb_block *block, const Use *uses) const noexcept {
  const Entry &entry = entry_of(block);
  for (; uses; uses = uses->next) {
    bool found = false;
    each_bit(entry.uses, [&](uint32_t stream) { found |= pools[stream]->stream == uses->queue->stream; });
    if (!found) return false;
  }
  return true;
}

tb_block *Program::find(const char *address) noexcept {
  for (const Entry &entry : entries) {
    tb_block *block = entry.block;
    if (block && block->state == BlockState::planned && block->pointer <= address &&
        address < block->pointer + block->size)
      return block;
  }
  return nullptr;
}

std::vector<tb_block> Program::row() const {
  std::vector<tb_block> out;
  std::vector<const tb_block *> allocated;
  for (const Entry &entry : entries)
    if (entry.block && entry.block->state != BlockState::unused) allocated.push_back(entry.block);
  std::sort(allocated.begin(), allocated.end(), [](auto *a, auto *b) { return a->pointer < b->pointer; });
  char *at = segment->base;
  auto gap = [&](char *to) {
    if (at == to) return;
    tb_block &free = out.emplace_back();
    free.pointer = at;
    free.size = static_cast<uint64_t>(to - at);
    free.segment = segment->first->segment;
    free.state = BlockState::free;
  };
  out.reserve(2 * allocated.size() + 1);
  for (const tb_block *block : allocated) {
    gap(block->pointer);
    out.push_back(*block);
    if (block->state == BlockState::planned) out.back().state = BlockState::allocated;
    at = block->pointer + block->size;
  }
  gap(segment->base + segment->size);
  for (size_t index = 0; index < out.size(); ++index)
    out[index].next = index + 1 < out.size() ? &out[index + 1] : nullptr;
  return out;
}

} // namespace tb::allocator
