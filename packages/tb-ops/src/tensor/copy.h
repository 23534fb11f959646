// Copies between every pair of devices.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace tb::ops {

// Registers copy_, _copy_from, _copy_from_and_resize and _local_scalar_dense, for any driver.
void register_copies(torch::Library &aten);

// Returns the number of bytes from a tensor's first element to the end of its last.
size_t span_bytes(const at::Tensor &tensor);
// Queues a copy of bytes on the current stream of a device whose memory the host may not touch. `kind` is a TB_COPY_*.
void queue_bytes(c10::DeviceIndex device, void *dst, const void *src, size_t bytes, int32_t kind);

// A kernel of the device that copies between tensors of any strides and dtypes on one device. It queues the copy of
// every element of `from` to its place in `to`, which has the same sizes. It returns false, and copies nothing, if it
// does not support the tensors.
using ElementCopy = bool (*)(const at::Tensor &from, const at::Tensor &to);
void set_element_copy(ElementCopy copy); // once, when operators are registered

} // namespace tb::ops
