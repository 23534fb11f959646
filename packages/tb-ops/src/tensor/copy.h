// Copies between every pair of devices.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace tb::ops {

// copy_, _copy_from, _local_scalar_dense: for any driver.
void register_copies(torch::Library &aten);

// A kernel of the device that copies between any strides and dtypes on one device. It queues the copy of every element of
// `from` to its place in `to`, which has the same sizes. False: it does not take these tensors, and nothing has happened.
using ElementCopy = bool (*)(const at::Tensor &from, const at::Tensor &to);
void set_element_copy(ElementCopy copy); // once, when operators are registered

} // namespace tb::ops
