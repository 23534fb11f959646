// acl.h -- the types, constants and error codes of libascendcl that the simulation uses.
//
// They are written from public documentation, independently of the driver's, so that a wrong number in one of the two
// is found.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sim {

using Error = int32_t;

// Error codes
enum : Error {
  kOk = 0,
  kUninitialized = 100001,
  kRepeatInitialize = 100002,
  kRepeatFinalize = 100037,
  kCompileStub = 100039,
  kParameter = 107000,
  kDeviceId = 107001,
  kNoContext = 107002,
  kForeignContext = 107003,
  kTimestamp = 107006,
  kReversed = 107007,
  kHandle = 107017,
  kUnsupported = 207000,
  kOutOfMemory = 207001,
  kNoEventLeft = 207007,
  kNoStreamLeft = 207008,
  kInternal = 507000,
  kCopyFault = 507013,
  kCoreException = 507015, // an AI core failed
  kRegistered = 507910,
  kNotRegistered = 507911,
  kOperatorNull = 161001,
  kOperatorParameter = 161002,
};

enum { kQueryNotReady = 0, kQueryComplete = 1 };   // for aclrtQueryEventStatus
enum { kStreamComplete = 0, kStreamNotReady = 1 }; // for aclrtStreamQuery, which has the opposite values
enum { kEventSync = 0x1, kEventTimeLine = 0x8, kEventFlags = 0x7b };
enum { kCopyKinds = 8 };

struct Location {
  uint32_t id;
  int32_t type; // 0 is host, 1 is device, 2 is unknown memory
};
struct PhysicalProperties {
  int32_t handle_type, allocation_type, attribute;
  Location location;
  uint64_t reserve;
};
struct PointerAttributes {
  Location location;
  uint32_t page_size;
  uint32_t reserved[4];
};
static_assert(sizeof(PhysicalProperties) == 32 && offsetof(PhysicalProperties, location) == 12);
static_assert(sizeof(PointerAttributes) == 28);

} // namespace sim
