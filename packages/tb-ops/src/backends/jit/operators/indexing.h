// What the operators that read and write by an index share.
#pragma once
#include "backends/jit/device_kernel.h"
#include "backends/jit/pointwise.h"

namespace tb::ops::jit {

// Returns an integer type of the same size. Kernels that only move elements are compiled for these types alone.
c10::ScalarType moved_as(const at::Tensor &tensor);

// Returns the type in which the kernels add to elements of `type` atomically: the type itself, or a wider one that is
// converted back. Returns Undefined if they cannot, or if the program asks for deterministic algorithms and sums would
// depend on the order.
c10::ScalarType added_as(c10::DeviceIndex device, c10::ScalarType type);

void register_advanced_indexing(torch::Library &aten);

} // namespace tb::ops::jit
