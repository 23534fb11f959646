// Computes calls of dropout that draw no random numbers.
#include "random/dropout.h"

#include <ATen/ops/clone_ops.h>
#include <ATen/ops/ones_ops.h>

#include "tensor/outputs.h"

namespace tb::ops {

using at::Tensor;

std::optional<std::tuple<Tensor, Tensor>> undrawn_dropout(const Tensor &input, double p, std::optional<bool> train) {
  if (input.numel() == 0) return std::tuple(input, empty_preserving(input, input.scalar_type()));
  if (!train.value_or(true)) {
    Tensor mask = at::_ops::ones::call(input.sym_sizes(), c10::kBool, c10::kStrided, input.device(), std::nullopt);
    return std::tuple(at::_ops::clone::call(input, std::nullopt), std::move(mask));
  }
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  return std::nullopt;
}

} // namespace tb::ops
