// The part of dropout that is the same on every driver: calls that draw no random numbers.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace tb::ops {

// Returns the result and the mask of a call that draws nothing, because it has no elements or is outside of training;
// empty for other calls. Throws the CPU's error if `p` is no probability.
std::optional<std::tuple<at::Tensor, at::Tensor>> undrawn_dropout(const at::Tensor &input, double p,
                                                                  std::optional<bool> train);

} // namespace tb::ops
