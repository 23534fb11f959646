// Chosen elements of a tensor, for operators whose results have a size that depends on the data.
#pragma once
#include <ATen/core/Tensor.h>

namespace tb::ops::jit {

// For each element how many are chosen up to it and including it, and how many are chosen in all.
struct Chosen {
  at::Tensor counts;
  int64_t total;
};

// Counts the true elements of a mask, in the order of a contiguous tensor. Waits for the device.
Chosen choose(const at::Tensor &mask);

// Returns the chosen elements of a tensor with as many elements as the mask.
at::Tensor compacted(const at::Tensor &tensor, const Chosen &chosen);

} // namespace tb::ops::jit
