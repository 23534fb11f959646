// The part of dropout that is the same on every driver: calls that draw no random numbers.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace tb::ops {

// Result and mask of a call that draws nothing: on no elements, or outside of training. Raises what the CPU raises for `p`.
std::optional<std::tuple<at::Tensor, at::Tensor>> undrawn_dropout(const at::Tensor &input, double p,
                                                                  std::optional<bool> train);

} // namespace tb::ops
