// counters.cpp -- statistics as the C table gives them.
#include "counters.h"

namespace tb {

void Counters::read(tb_allocator_statistics *out) const {
  tb_statistic *const places[lanes] = {out->allocation,      out->active,       out->inactive_split,
                                       out->allocated_bytes, out->active_bytes, out->inactive_split_bytes,
                                       out->requested_bytes, out->segment,      out->reserved_bytes};
  for (size_t lane = 0; lane < lanes; ++lane) {
    tb_statistic &all = places[lane][0];
    all = {all_[lane].current, all_[lane].peak, 0, 0};
    for (size_t large = 0; large < 2; ++large) {
      const Value &value = pools_[large][lane];
      tb_statistic one = {value.current, value.peak, value.increased - value.increased_before,
                          value.increased - value.current - value.decreased_before};
      places[lane][1 + large] = one;
      all.allocated += one.allocated;
      all.freed += one.freed;
    }
  }
  out->num_alloc_retries = alloc_retries;
  out->num_ooms = ooms;
  out->num_device_alloc = device_alloc;
  out->num_device_free = device_free;
  out->num_sync_all_streams = sync_all_streams;
  out->max_split_size = -1; // no limit to splitting
}

} // namespace tb
