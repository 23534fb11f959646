// The check of randperm's arguments, which is the same on every driver.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>

namespace tb::ops {

// Throws what randperm throws on the CPU.
void check_permutation(int64_t n, const std::optional<at::Generator> &generator, const at::Tensor &out);

} // namespace tb::ops
