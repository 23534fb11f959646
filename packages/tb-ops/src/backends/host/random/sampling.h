// Drawing indices: permutations and samples with given weights.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace tb::ops::host {

void register_sampling(torch::Library &aten);

// Returns a new contiguous CPU tensor of doubles. Call it on the worker.
at::Tensor host_doubles(c10::IntArrayRef sizes);

} // namespace tb::ops::host
