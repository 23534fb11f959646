// pausing.cpp -- the memory of a heap goes back to the driver while its blocks keep their addresses, and returns later.
#include "heap/heap.h"

namespace tb::allocator {

tb_status Heap::pause(bool backup) {
  std::lock_guard growth(growth_);
  int32_t device = source_->device();
  if (!store_.policy.growing)
    return fail(TB_UNSUPPORTED, device, "pause",
                "only memory in pages keeps its addresses: use an arena that is not contiguous, on a driver with "
                "virtual memory (group VMM)");
  if (store_.policy.fixed)
    return fail(TB_UNSUPPORTED, device, "pause",
                "a graph's arena keeps its memory: destroy the graph, and capture it again afterwards");
  {
    std::lock_guard guard(store_.lock);
    if (paused_) return fail(TB_FAILED_PRECONDITION, device, "pause", "the arena is paused already");
    set_paused(true); // from here on nothing is allocated
  }
  tb_status status = TB_OK;
  try {
    status = release_cached(); // and waits for the device
    if (status == TB_OK) status = pages_.copy_out(backup);
  } catch (...) {
    end_pause();
    throw;
  }
  if (status != TB_OK) {
    end_pause();
    return status;
  }
  return pages_.unmap_all();
}

tb_status Heap::resume() {
  std::lock_guard growth(growth_);
  if (!paused_) return fail(TB_FAILED_PRECONDITION, source_->device(), "resume", "the arena is not paused");
  if (tb_status status = pages_.map_all(); status != TB_OK) return status; // still paused
  end_pause();
  return TB_OK;
}

void Heap::end_pause() noexcept {
  pages_.forget_runs();
  std::lock_guard guard(store_.lock);
  set_paused(false);
}

} // namespace tb::allocator
