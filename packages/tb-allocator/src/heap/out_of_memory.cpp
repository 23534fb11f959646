// out_of_memory.cpp -- the figures of a request that found no memory.
#include <algorithm>
#include <mutex>

#include "diagnostics/report.h"
#include "heap/heap.h"

namespace tb::allocator {

tb_status Heap::out_of_memory(const Request &request) {
  OutOfMemory all;
  all.device = source_->device();
  all.requested = request.size;
  all.rounded = request.rounded;
  all.pages = store_.policy.growing;
  all.driver_known = all.device >= 0 && driver_.api->device_memory_info(driver_.self, all.device, &all.driver_free,
                                                                        &all.driver_total) == TB_OK;
  caches_.return_all();
  {
    std::lock_guard guard(store_.lock);
    store_.history.record(Action::out_of_memory, nullptr, request.size, request.stream, all.driver_free);
    all.limit = store_.limit;
    all.reserved = static_cast<uint64_t>(store_.counters.current(Count::reserved_bytes));
    if (const DeviceTotal *total = store_.policy.total; total && total->limit < all.limit) {
      all.limit = total->limit;
      all.reserved = total->reserved;
    }
    all.allocated = static_cast<uint64_t>(store_.counters.current(Count::allocated_bytes));
    all.pending = static_cast<uint64_t>(store_.counters.current(Count::pending_bytes));
    for (auto &pools : store_.pools) {
      uint64_t free = pools->small.bins.bytes() + pools->large.bins.bytes();
      all.largest_free = std::max({all.largest_free, pools->small.bins.largest(), pools->large.bins.largest()});
      (pools->small.stream == request.stream ? all.free_here : all.free_elsewhere) += free;
      if (free) all.by_stream.push_back({pools->small.stream, free});
    }
  }
  return fail(TB_OUT_OF_MEMORY, all.device, "allocate", out_of_memory_text(all).c_str());
}

} // namespace tb::allocator
