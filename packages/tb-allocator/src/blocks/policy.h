// policy.h -- how a heap rounds, grows and releases memory, by kind of memory.
#pragma once

#include <cstdint>

#include "blocks/bins.h"
#include "blocks/configuration.h"
#include "blocks/device_total.h"
#include "host.h"

namespace tb::allocator {

inline constexpr uint64_t MiB = uint64_t{1} << 20;
// Of paged memory. Larger requests use what others leave of their pages; smaller ones would fragment pages.
inline constexpr uint64_t paged_small_limit = MiB / 8;
// From this size on, sizes are multiples of `coarse`, which adds 0.2 % at most: so a block fits another of nearly its
// size.
inline constexpr uint64_t coarse_from = 2 * MiB, coarse = 4 << 10;

struct HeapPolicy {
  uint64_t granule = unit;            // requests are rounded up to it
  uint64_t small_limit = MiB;         // larger requests go to the large pool
  uint64_t small_segment = 2 * MiB;   // shared by small blocks
  uint64_t medium_limit = 10 * MiB;   // larger requests get a segment of their own size
  uint64_t medium_segment = 20 * MiB; // shared by large blocks up to medium_limit
  uint64_t large_rounding = 2 * MiB;  // of a segment's own size
  bool fixed = false;                 // pages stay where they are, and no events are recorded: for graphs
  bool growing = false;               // segments of mapped pages: TB_ALLOC_CONF=expandable_segments:True
  bool whole_segments = false;  // a large block is a segment, and idle segments are released before more is allocated
  uint64_t total_memory = 0;    // of the device, for the length of the ranges
  uint64_t limit = UINT64_MAX;  // of reserved memory, at first
  double slack = 1.0 / 128;     // growth beyond the most bytes in use at one time, before pages move or, with
                                // whole_segments, idle segments are released
  uint64_t history = 0;         // events remembered
  bool thread_caches = true;    // of small blocks; not with `fixed`
  DeviceTotal *total = nullptr; // that the heap's memory is a part of; outlives the heap
};

HeapPolicy device_policy(const Configuration &configuration, const tb_device_info &device, bool virtual_memory);
HeapPolicy pinned_policy(const Configuration &configuration);

} // namespace tb::allocator
