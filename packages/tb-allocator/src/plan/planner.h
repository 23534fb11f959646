// planner.h -- the plans of one heap: steps that repeat are recorded, then served from places computed beforehand.
//
// A plan exists as long as the heap; another name is another plan. Steps of one heap do not overlap, and what all
// threads ask of the heap during a step belongs to the step.
//
// Locks: as in heap/heap.h. The list of plans is guarded by the growth lock; a Plan and its Program by the store's
// lock.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "heap/heap.h"
#include "plan/plan.h"

namespace tb::allocator {

class Planner final : public StepPlanner {
public:
  explicit Planner(Heap &heap) : StepPlanner(heap) {}

  // The plan of that name, created with `warmup` repetitions at the first call.
  Plan *plan(const std::string &name, uint32_t warmup);
  tb_status begin_step(Plan &plan);
  // completed: false for a step that was broken off.
  void end_step(Plan &plan, bool completed) noexcept;
  // Gives the plan's memory to the heap, and records the step again.
  tb_status reset_plan(Plan &plan);
  template <class Read> auto read_plan(const Plan &plan, Read read) {
    std::lock_guard guard(store_.lock);
    return read(plan);
  }

  tb_status allocate_in_step(uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block) override;
  void before_free(tb_block *block) noexcept override;
  void free_planned(tb_block *block) noexcept override;
  bool release_memory() override;

private:
  // steps.cpp
  void abandon_step(Plan &plan) noexcept;
  tb_status make_program(Plan &plan);
  void count_planned(tb_block &block, uint64_t requested) noexcept; // the store's lock is held
  bool is_large(const tb_block &block) const noexcept { return block.size > store_.policy.small_limit; }

  // places.cpp, with the growth lock held. The device was waited for: from then on every stream may use the memory.
  tb_status make_places(Program &program);
  // Allocated blocks become the heap's as they are, and the rest of the memory becomes free blocks of it. Throws
  // std::bad_alloc, and then nothing has changed.
  void dissolve(Program &program);
  tb_status drop_program(Plan &plan);
  void release_records(Program &program) noexcept; // of blocks that are not allocated; the store's lock is held

  std::vector<std::shared_ptr<Plan>> plans_;
  Plan *step_ = nullptr; // the plan whose step is open; guarded by the store's lock
};

// The heap's planner, created at the first call.
Planner &planner_of(Heap &heap);

} // namespace tb::allocator
