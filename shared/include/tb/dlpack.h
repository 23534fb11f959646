// dlpack.h -- the part of the DLPack ABI (1.x and the legacy form before it) that the components read and write.
//
// Layout and names follow https://dmlc.github.io/dlpack/latest/c_api.html.
#pragma once

#include <cstdint>

namespace tb::dlpack {

struct Device {
  int32_t type;
  int32_t id;
};
inline constexpr int32_t type_cpu = 1;
inline constexpr int32_t type_cuda = 2;
inline constexpr int32_t type_cuda_host = 3;

// Codes of DataType.
enum Code : uint8_t { integer = 0, unsigned_integer = 1, floating = 2, brain_floating = 4, boolean = 6 };

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
inline constexpr DataType uint8 = {1, 8, 1};

struct Tensor {
  void *data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t *shape;
  int64_t *strides; // in elements; NULL: row-major
  uint64_t byte_offset;
};

struct Managed { // capsule "dltensor"
  static constexpr const char *name = "dltensor";
  Tensor tensor;
  void *context;
  void (*deleter)(Managed *self); // may be NULL
};

struct ManagedVersioned { // capsule "dltensor_versioned"
  static constexpr const char *name = "dltensor_versioned";
  uint32_t major, minor;
  void *context;
  void (*deleter)(ManagedVersioned *self);
  uint64_t flags;
  Tensor tensor;
};
inline constexpr uint64_t flag_is_copied = 2;

} // namespace tb::dlpack
