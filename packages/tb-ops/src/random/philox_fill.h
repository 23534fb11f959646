// Fills tensors with numbers from tb-generator. The calling thread reserves a range of the generator's sequence, and
// the worker fills with all its threads. Element i, in the order of a contiguous tensor, depends on seed, offset and i
// alone.
#pragma once
#include <ATen/core/Generator.h>

#include "launch/launch.h"
#include "random/philox_state.h"

namespace tb::ops {

// Reserves what a fill of `count` elements needs from the given generator, or from the device's default generator.
PhiloxState reserve(const std::optional<at::Generator> &generator, c10::DeviceIndex device, int32_t kind,
                    c10::ScalarType type, int64_t count);

// Returns the TB_* constant of a type that the generator fills directly, and 0 for other types.
int32_t generator_type(c10::ScalarType type);

// Returns the bound below which random_() without arguments draws integers from 0 on: all of the dtype, or all that a
// floating-point dtype represents exactly.
uint64_t default_range(c10::ScalarType type);

// Fills `count` elements of a TB_* type from the element `first` on. Returns the generator's status.
using RangeFill = std::function<tb_status(void *destination, int32_t type, uint64_t first, uint64_t count)>;

// Fills a CPU tensor of any layout in parallel. Call it on the worker.
void fill_tensor(at::Tensor &tensor, const RangeFill &fill);

struct Distribution {
  int32_t kind; // TB_FILL_*
  double a = 0, b = 0;
  int64_t from = 0;
  uint64_t range = 0;
  PhiloxState philox{};

  tb_status fill(void *destination, int32_t type, uint64_t first, uint64_t count) const;
};

// Does the same for a distribution. If parameters are not finite, standard numbers are drawn and the parameters are
// applied to them by arithmetic, as on the CPU.
void fill_tensor(at::Tensor &tensor, const Distribution &distribution);

} // namespace tb::ops
