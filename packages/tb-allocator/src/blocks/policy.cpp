// policy.cpp -- the policies of device memory and of pinned memory.
#include "blocks/policy.h"

#include <bit>

namespace tb::allocator {

HeapPolicy device_policy(const Configuration &configuration, const tb_device_info &device, bool virtual_memory) {
  HeapPolicy policy;
  if (device.alignment > unit) policy.granule = std::bit_ceil(uint64_t{device.alignment});
  // Plain memory is faster on a device that is the host's own memory, because the system uses large pages for it.
  bool host = device.flags & TB_DEVICE_HOST_ACCESSIBLE;
  policy.growing = configuration.expandable_segments.value_or(virtual_memory && !host);
  if (policy.growing) policy.small_limit = paged_small_limit;
  policy.total_memory = device.total_memory;
  if (configuration.per_process_memory_fraction < 1)
    policy.limit =
        static_cast<uint64_t>(configuration.per_process_memory_fraction * static_cast<double>(device.total_memory));
  policy.slack = configuration.slack;
  policy.history = configuration.history;
  return policy;
}

HeapPolicy pinned_policy(const Configuration &configuration) {
  HeapPolicy policy;
  policy.small_limit = 64 << 10;
  policy.large_rounding = 4 << 10;
  policy.medium_limit = 0;
  policy.whole_segments = true;
  policy.slack = configuration.pinned_slack;
  return policy;
}

} // namespace tb::allocator
