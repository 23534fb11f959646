// What dropout is on every driver before numbers are drawn.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace tb {

// Result and mask where nothing is drawn: of no elements, and outside of training. Raises what the CPU raises for `p`.
std::optional<std::tuple<at::Tensor, at::Tensor>> undrawn_dropout(const at::Tensor &input, double p,
                                                                  std::optional<bool> train);

} // namespace tb
