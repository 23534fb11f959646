// Fills of tensors from tb-generator: the calling thread reserves a range of the generator's sequence, the worker fills, with
// all its threads. Element i, in the order of a contiguous tensor, depends on seed, offset and i alone.
#pragma once
#include <ATen/core/Generator.h>

#include "launch/launch.h"
#include "random/philox_state.h"

namespace tb::ops {

// Reserves what a fill of `count` elements needs from the given generator, or from the device's own.
PhiloxState reserve(const std::optional<at::Generator> &generator, c10::DeviceIndex device, int32_t kind,
                    c10::ScalarType type, int64_t count);

// TB_* of a type that the generator fills directly; 0 for the others.
int32_t generator_type(c10::ScalarType type);

// From how many integers, 0 and above, random_ without bounds draws: all of the dtype, or all that a floating dtype holds
// exactly.
uint64_t default_range(c10::ScalarType type);

// fill(destination, TB_* type, index of the first element, count): returns the generator's status.
using RangeFill = std::function<tb_status(void *destination, int32_t type, uint64_t first, uint64_t count)>;

// On the worker: fills a CPU tensor of any layout in parallel.
void fill_tensor(at::Tensor &tensor, const RangeFill &fill);

struct Distribution {
  int32_t kind; // TB_FILL_*
  double a = 0, b = 0;
  int64_t from = 0;
  uint64_t range = 0;
  PhiloxState philox{};

  tb_status fill(void *destination, int32_t type, uint64_t first, uint64_t count) const;
};

// On the worker. Parameters that are no finite numbers are applied as arithmetic says, as on the CPU.
void fill_tensor(at::Tensor &tensor, const Distribution &distribution);

} // namespace tb::ops
