// Checks indices on the worker, for kernels of PyTorch that take them as checked: a backward pass gets those that its
// forward pass refused, or never wrote, if a program goes on after the error.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace tb::ops::host {

// Raises IndexError unless all elements of `indices` (int64, int32 or uint8, on the CPU) are in [0, end) or `allowed`.
// `what` begins the text.
void check_bounds(const at::Tensor &indices, int64_t end, const char *what,
                  std::optional<int64_t> allowed = std::nullopt);

} // namespace tb::ops::host
