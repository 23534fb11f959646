// step_planner.cpp -- a planner's access to its heap.
#include "heap/step_planner.h"

#include "heap/heap.h"

namespace tb::allocator {

StepPlanner::StepPlanner(Heap &heap)
    : heap_(heap), driver_(heap.driver_), source_(*heap.source_), store_(heap.store_), events_(heap.events_),
      pages_(heap.pages_), frees_(heap.frees_), caches_(heap.caches_), growth_(heap.growth_) {}

void StepPlanner::set_step_open(bool open) noexcept {
  heap_.open_step_.store(open ? this : nullptr, std::memory_order_release);
}

tb_status StepPlanner::allocate_without_plan(uint64_t size, tb_stream *stream, void **out_pointer,
                                             tb_block **out_block) {
  return heap_.allocate_uncached(size, stream, out_pointer, out_block);
}

uint64_t StepPlanner::round(uint64_t size) const noexcept { return heap_.round(size); }

tb_status StepPlanner::check_state() { return heap_.check_state(); }

tb_status StepPlanner::release_cached() { return heap_.release_cached(); }

tb_status StepPlanner::find_page() { return heap_.find_page(); }

bool StepPlanner::paused() const noexcept { return heap_.paused_; }

tb_status StepPlanner::refuse_paused() { return heap_.refuse_paused(); }

} // namespace tb::allocator
