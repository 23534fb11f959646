// Tensors of batch x channels x up to three spatial dimensions, as kernels know them.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "tb_ops/device_kernels/arguments.h"

namespace tb::ops::jit {

// The last `spatial` dimensions of the tensor are spatial, the one before them has the channels, and there may be one of
// the batch.
inline kernels::Volume volume_of(const at::Tensor &tensor, int64_t spatial) {
  const int64_t channel = tensor.dim() - spatial - 1;
  kernels::Volume volume{const_cast<void *>(tensor.const_data_ptr()), 1, tensor.size(channel), {1, 1, 1}, 0, 0, {}};
  volume.channel_stride = tensor.stride(channel);
  if (channel > 0) volume.batch = tensor.size(0), volume.batch_stride = tensor.stride(0);
  for (int64_t d = 0; d < spatial; d++) {
    volume.sizes[3 - spatial + d] = tensor.size(channel + 1 + d);
    volume.strides[3 - spatial + d] = tensor.stride(channel + 1 + d);
  }
  return volume;
}

// Writes the numbers of the last `spatial` dimensions. A list with one number has it for all of them; `missing` is for
// the other dimensions, and for an empty list.
inline void take_numbers(kernels::Long (&to)[3], c10::IntArrayRef list, int64_t spatial, int64_t missing) {
  for (int64_t d = 0; d < 3; d++) {
    const int64_t i = d - (3 - spatial);
    to[d] = i < 0 || list.empty() ? missing : list[list.size() == 1 ? 0 : static_cast<size_t>(i)];
  }
}

// Whether coordinates, which kernels have in 32 bits, fit with some room for padding and dilation.
inline bool moderate(const at::Tensor &tensor) {
  return std::ranges::all_of(tensor.sizes(), [](int64_t size) { return size < int64_t{1} << 30; });
}

} // namespace tb::ops::jit
