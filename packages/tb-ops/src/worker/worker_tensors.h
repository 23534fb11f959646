// Further aliases that a kernel makes of the aliases it was given.
#pragma once
#include "launch/tensor_descriptor.h"

namespace tb {

// Elements of a contiguous alias, in one dimension, on any thread of the kernel; valid until its part ends.
at::Tensor &slice(const at::Tensor &alias, int64_t begin, int64_t count);

// `count` elements in one dimension at an address, as long; others from now on; as many at another address.
at::Tensor &flat(void *data, c10::ScalarType type, int64_t count);
void set_flat(at::Tensor &flat, void *data, int64_t count);
void move_flat(at::Tensor &flat, void *data);

} // namespace tb
