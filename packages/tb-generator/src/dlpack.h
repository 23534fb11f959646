// The DLPack exchange structure as far as it is read here. After the DLPack specification, version 0.8.
#pragma once
#include <cstdint>

namespace tb::dlpack {

enum Code : uint8_t { integer = 0, unsigned_integer = 1, floating = 2, brain_floating = 4, boolean = 6 };
enum DeviceType : int32_t { cpu = 1, cuda_host = 3 };

struct Tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t dimensions;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape;
  int64_t *strides; // in elements; null: row-major
  uint64_t byte_offset;
};

struct Managed {
  Tensor tensor;
  void *context;
  void (*deleter)(Managed *self); // may be null
};

} // namespace tb::dlpack
