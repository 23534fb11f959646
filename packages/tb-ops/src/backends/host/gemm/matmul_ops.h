// Lets tests run the microkernel itself.
#pragma once
#include <ATen/core/Tensor.h>

namespace tb::ops::host {

// Computes out = left right, or out += left right, of float matrices or batches with the microkernel. Returns false if
// this processor cannot run it.
bool run_sgemm(const at::Tensor &left, const at::Tensor &right, at::Tensor out, bool add);

} // namespace tb::ops::host
