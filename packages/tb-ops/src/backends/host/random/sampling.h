// Drawing indices: permutations and samples with given weights.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace tb {

void register_sampling(torch::Library &aten);

// Raises what randperm raises on the CPU.
void check_permutation(int64_t n, const std::optional<at::Generator> &generator, const at::Tensor &out);

// On the worker: a new contiguous CPU tensor of doubles.
at::Tensor host_doubles(c10::IntArrayRef sizes);

} // namespace tb
