// Copies on one device between any strides and types: what a set of the device's own operators brings along.
#pragma once
#include <ATen/core/Tensor.h>

namespace tb {

// Queues the copy of every element of `from` to its place in `to`, of the same sizes. False: not for these tensors, and
// nothing has happened.
using ElementCopy = bool (*)(const at::Tensor &from, const at::Tensor &to);
void set_element_copy(ElementCopy copy); // once, when operators are registered

} // namespace tb
