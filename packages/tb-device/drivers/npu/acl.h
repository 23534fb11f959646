// acl.h -- our own statement of libascendcl's types and constants, as far as the driver uses them.
//
// Written from public facts, for x86-64 and aarch64; the vendor's headers may be used with its processors only.
#ifndef TB_NPU_ACL_H
#define TB_NPU_ACL_H

#include <cstddef>
#include <cstdint>

namespace tb::npu::acl {

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

enum : int32_t { kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3 };
enum : int32_t { kHugePagesFirst = 0 };    // aclrtMalloc's policy
enum : int32_t { kHbm = 1, kHbmHuge = 4 }; // kinds of memory
enum : int32_t { kLocationHost = 0, kLocationDevice = 1 };
enum : int32_t { kMinimum = 0, kRecommended = 1 }; // granularities
enum : int32_t { kRegisterMapped = 0 };
enum : int32_t { kAiCores = 101, kCubeCores = 102, kVectorCores = 201, kTotalMemory = 301, kL2Bytes = 302 };
enum : uint32_t { kStreamFastLaunch = 0x1, kStreamFastSync = 0x2 };
enum : uint32_t { kEventSync = 0x1, kEventTimeLine = 0x8 };
// The two queries answer in opposite senses.
enum : int32_t { kStreamComplete = 0, kStreamNotReady = 1 };
enum : int32_t { kEventNotReady = 0, kEventComplete = 1 };

enum : Error {
  kSuccess = 0,
  kRepeatInitialize = 100002,
  kCompilingStub = 100039,
  kContextNull = 107002,
  kTimestampReversed = 107007,
};

} // namespace tb::npu::acl
#endif
