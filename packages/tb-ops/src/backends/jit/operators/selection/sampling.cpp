// Drawing places with given weights. PyTorch's multinomial checks the arguments; without replacement, or for one
// sample, it divides exponential numbers by the weights and takes the greatest.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/cumsum_ops.h>
#include <ATen/ops/minimum_ops.h>
#include <ATen/ops/multinomial_native.h>
#include <ATen/ops/searchsorted_ops.h>

#include "backends/jit/device_facts.h"
#include "backends/jit/jit.h"
#include "tensor/outputs.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;

Tensor parts_of(const Tensor &sums, const Tensor &points, bool right) {
  return at::_ops::searchsorted_Tensor::call(sums, points, false, right, std::nullopt, std::nullopt);
}

// A uniform number times the sum of all weights falls into the part of one class. Rounding may bring it up to the sum,
// which is after the last part, so the first class that reaches the sum is the last to be drawn.
void multinomial_with_replacement(Tensor &out, const Tensor &weights, int64_t, std::optional<at::Generator> generator) {
  if (out.numel() == 0) return;
  TORCH_CHECK(weights.size(-1) > 0, "invalid multinomial distribution: a row has no weights");
  const c10::ScalarType type = facts_of(weights.device().index()).float64 ? c10::kDouble : c10::kFloat;
  const Tensor sums = at::_ops::cumsum::call(weights, -1, type), total = sums.narrow(-1, sums.size(-1) - 1, 1);
  const Tensor good = weights.ge(0).all().logical_and(total.gt(0).logical_and(total.isfinite()).all());
  TORCH_CHECK(good.item<bool>(), "invalid multinomial distribution: a weight is below 0, infinity or NaN, or the "
                                 "weights of a row sum to 0");
  const Tensor points = empty_on(weights, out.sizes(), type).uniform_(0, 1, std::move(generator)).mul_(total);
  out.copy_(at::_ops::minimum::call(parts_of(sums, points, true), parts_of(sums, total.contiguous(), false)));
}

} // namespace

void register_sampling(torch::Library &aten) {
  at::native::multinomial_with_replacement_stub.set_privateuse1_dispatch_ptr(&multinomial_with_replacement);
  aten.impl("multinomial", &at::native::multinomial);
  aten.impl("multinomial.out", &at::native::multinomial_out);
}

} // namespace tb::ops::jit
