// counters.cpp -- statistics as the C table gives them.
#include "blocks/counters.h"

namespace tb::allocator {

void Counters::note_active(bool large, int64_t more_blocks, int64_t more_bytes) {
  auto note = [large](Active &active, const Lane &allocated, const Lane &pending, int64_t more) {
    int64_t &own = active.pools[large];
    own = std::max(own, allocated.pools[large].current + pending.pools[large].current + more);
    active.all = std::max(active.all, allocated.current() + pending.current() + more);
  };
  note(active_, lane(Count::allocation), lane(Count::pending), more_blocks);
  note(active_bytes_, lane(Count::allocated_bytes), lane(Count::pending_bytes), more_bytes);
}

void Counters::reset_peak() {
  for (Lane &one : lanes_) {
    for (Value &value : one.pools) value.peak = value.current;
    one.peak = one.current();
  }
  active_ = active_bytes_ = {};
}

void Counters::reset_accumulated() {
  before_ = lanes_;
  alloc_retries = ooms = device_alloc = device_free = sync_all_streams = 0;
}

// Both pools together, the small one, the large one.
void Counters::read(const Lane &now, const Lane &before, tb_statistic *out) {
  out[0] = {now.current(), std::max(now.peak, now.current()), 0, 0};
  for (size_t large = 0; large < 2; ++large) {
    const Value &value = now.pools[large], &old = before.pools[large];
    int64_t freed = value.decreased - old.decreased;
    tb_statistic one = {value.current, std::max(value.peak, value.current), freed + value.current - old.current, freed};
    out[1 + large] = one;
    out[0].allocated += one.allocated;
    out[0].freed += one.freed;
  }
}

void Counters::read_active(const tb_statistic *allocated, const Lane &pending, const Lane &before, const Active &peaks,
                           tb_statistic *out) {
  auto read = [](tb_statistic one, int64_t now, int64_t old, int64_t peak) -> tb_statistic {
    int64_t current = one.current + now;
    return {current, std::max({one.peak, peak, current}), one.allocated, one.freed + old - now};
  };
  out[0] = read(allocated[0], pending.current(), before.current(), peaks.all);
  for (size_t large = 0; large < 2; ++large)
    out[1 + large] =
        read(allocated[1 + large], pending.pools[large].current, before.pools[large].current, peaks.pools[large]);
}

void Counters::read(tb_allocator_statistics *out) const {
  auto one = [this](Count count, tb_statistic *place) {
    read(lane(count), before_[static_cast<size_t>(count)], place);
  };
  one(Count::allocation, out->allocation);
  one(Count::inactive_split, out->inactive_split);
  one(Count::allocated_bytes, out->allocated_bytes);
  one(Count::inactive_split_bytes, out->inactive_split_bytes);
  one(Count::requested_bytes, out->requested_bytes);
  one(Count::segment, out->segment);
  one(Count::reserved_bytes, out->reserved_bytes);
  read_active(out->allocation, lane(Count::pending), before_[static_cast<size_t>(Count::pending)], active_,
              out->active);
  read_active(out->allocated_bytes, lane(Count::pending_bytes), before_[static_cast<size_t>(Count::pending_bytes)],
              active_bytes_, out->active_bytes);
  out->num_alloc_retries = alloc_retries;
  out->num_ooms = ooms;
  out->num_device_alloc = device_alloc;
  out->num_device_free = device_free;
  out->num_sync_all_streams = sync_all_streams;
  out->max_split_size = -1; // no limit to splitting
}

} // namespace tb::allocator
