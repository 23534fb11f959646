// Our own statement of libascendcl's types and constants, as far as the driver uses them.
//
// Written from public facts, for x86-64 and aarch64; the vendor's headers may be used with its processors only.
// tools/checks/cann_header_check.py compares all of it with a toolkit's headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tb::drivers::npu::acl {

using Error = int32_t; // 0 is success
using Context = void *;
using Stream = void *;
using Event = void *;
using Physical = void *;
using HostFunction = void (*)(void *argument);

struct MemoryLocation {
  uint32_t id;
  int32_t type;
};
struct PhysicalProperties {
  int32_t handle_type;     // 0 none
  int32_t allocation_type; // 0 pinned
  int32_t attribute;
  MemoryLocation location;
  uint64_t reserve;
};
struct PointerAttributes {
  MemoryLocation location;
  uint32_t page_size;
  uint32_t reserve[4];
};
struct Uuid {
  char bytes[16];
};
static_assert(sizeof(MemoryLocation) == 8 && sizeof(PhysicalProperties) == 32 && sizeof(PointerAttributes) == 28);
static_assert(offsetof(PhysicalProperties, location) == 12 && offsetof(PhysicalProperties, reserve) == 24);

enum : int32_t { host_to_device = 1, device_to_host = 2, device_to_device = 3 };
enum : int32_t { huge_pages_first = 0 };  // aclrtMalloc's policy
enum : int32_t { hbm = 1, hbm_huge = 4 }; // kinds of memory
enum : int32_t { location_host = 0, location_device = 1 };
enum : int32_t { minimum_option = 0, recommended = 1 }; // granularities
enum : int32_t { register_mapped = 0 };
enum : int32_t { ai_cores = 101, cube_cores = 102, vector_cores = 201, total_memory_key = 301, l2_bytes = 302 };
enum : uint32_t { stream_fast_launch = 0x1, stream_fast_sync = 0x2 };
enum : uint32_t { event_sync = 0x1, event_time_line = 0x8 };
// The two queries answer in opposite senses.
enum : int32_t { stream_complete = 0, stream_not_ready = 1 };
enum : int32_t { event_not_ready = 0, event_complete = 1 };

enum : Error {
  success = 0,
  repeat_initialize = 100002,
  compiling_stub = 100039,
  context_null = 107002,
  timestamp_reversed = 107007,
};

} // namespace tb::drivers::npu::acl
