// A hook for tests: the microkernel itself.
#pragma once
#include <ATen/core/Tensor.h>

namespace tb::ops::host {

// out = left right, or out += left right, of float matrices or batches, by the microkernel alone. False: this processor
// cannot run it.
bool run_sgemm(const at::Tensor &left, const at::Tensor &right, at::Tensor out, bool add);

} // namespace tb::ops::host
