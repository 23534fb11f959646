// Selecting by a mask. The elements' places in the result are running counts; the host waits for the last of them.
#include "backends/jit/operators/selection/masks.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/arange_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/cumsum_ops.h>
#include <ATen/ops/masked_scatter_ops.h>
#include <ATen/ops/masked_select_ops.h>
#include <ATen/ops/ne_ops.h>
#include <ATen/ops/nonzero_ops.h>
#include <ATen/ops/repeat_interleave_ops.h>
#include <ATen/ops/searchsorted_ops.h>

#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/operators/indexing.h"
#include "backends/jit/pointwise.h"
#include "tensor/outputs.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;

void launch_compact(const char *name, c10::ScalarType type, kernels::CompactArguments &arguments, const Chosen &chosen,
                    const Tensor &output) {
  arguments.count = chosen.counts.numel();
  arguments.counts = static_cast<const kernels::Long *>(chosen.counts.const_data_ptr());
  arguments.output = output.mutable_data_ptr();
  launch_elements(device_number(output), {"compact.cuh", instance(name, type), "CompactArguments"}, arguments.count,
                  arguments);
}

// A row for each element that is not 0. The coordinates of one dimension are side by side, as on the CPU.
Tensor coordinates(const Tensor &self) {
  const Chosen chosen = choose(self.scalar_type() == c10::kBool ? self : at::_ops::ne_Scalar::call(self, 0));
  const Tensor out = empty_on(self, {self.dim(), chosen.total}, c10::kLong);
  if (out.numel() > 0) {
    kernels::CompactArguments arguments{};
    arguments.dims = static_cast<int>(self.dim());
    arguments.limit = chosen.total;
    std::copy(self.sizes().begin(), self.sizes().end(), arguments.sizes);
    launch_compact("coordinates", c10::kLong, arguments, chosen, out);
  }
  return out.t();
}

Tensor &nonzero_out(const Tensor &self, Tensor &out) {
  if (!supported({&self, &out}) || self.dim() > kernels::max_dims)
    return call_fallback<at::_ops::nonzero_out>(self, out);
  TORCH_CHECK(out.scalar_type() == c10::kLong, "nonzero: Expected out tensor to have scalar type Long but got scalar ",
              "type ", out.scalar_type());
  common_device("aten::nonzero", {&self, &out});
  const Tensor found = coordinates(self);
  if (at::native::resize_output(out, found.sizes())) out.as_strided_(found.sizes(), found.strides());
  return at::_ops::copy_::call(out, found, false);
}
Tensor nonzero(const Tensor &self) {
  if (!supported({&self}) || self.dim() > kernels::max_dims) return call_fallback<at::_ops::nonzero>(self);
  return coordinates(self);
}

Tensor selected(const Tensor &self, const Tensor &mask) {
  TORCH_CHECK(mask.scalar_type() == c10::kBool, "masked_select: expected BoolTensor for mask");
  common_device("aten::masked_select", {&self, &mask});
  const auto [to, from] = at::expand_outplace(mask, self);
  return compacted(*from, choose(*to));
}
Tensor masked_select(const Tensor &self, const Tensor &mask) {
  if (!supported({&self, &mask})) return call_fallback<at::_ops::masked_select>(self, mask);
  return selected(self, mask);
}
Tensor &masked_select_out(const Tensor &self, const Tensor &mask, Tensor &out) {
  if (!supported({&self, &mask, &out})) return call_fallback<at::_ops::masked_select_out>(self, mask, out);
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  common_device("aten::masked_select", {&self, &mask, &out});
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  const Tensor found = selected(self, mask);
  at::native::resize_output(out, found.sizes());
  return out.copy_(found);
}

// Needs no wait: the kernel checks that the source has enough elements.
Tensor &masked_scatter(Tensor &self, const Tensor &mask, const Tensor &source) {
  if (!supported({&self, &mask, &source})) return call_fallback<at::_ops::masked_scatter_>(self, mask, source);
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter_: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
              source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == c10::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  at::assert_no_internal_overlap(self);
  const auto expanded = at::expand_inplace(self, mask, "masked_scatter_");
  const Tensor whole = contiguous(self), from = contiguous(source);
  const Chosen chosen{at::_ops::cumsum::call(expanded->reshape({-1}), 0, c10::kLong), 0};
  kernels::CompactArguments arguments{};
  arguments.input = from.const_data_ptr(), arguments.limit = from.numel();
  launch_compact("expand", moved_as(self), arguments, chosen, whole);
  return whole.is_same(self) ? self : self.copy_(whole);
}

// Element j of the result is the place in `repeats` whose repetitions have the number j.
Tensor repeated_places(const Tensor &repeats, std::optional<int64_t> size) {
  if (!supported({&repeats}) || (repeats.scalar_type() != c10::kLong && repeats.scalar_type() != c10::kInt))
    return call_fallback<at::_ops::repeat_interleave_Tensor>(repeats, size);
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  if (repeats.numel() == 0) return empty_on(repeats, {0}, repeats.scalar_type());
  const Tensor ends = at::_ops::cumsum::call(repeats, 0, c10::kLong);
  if (!size) {
    TORCH_CHECK(repeats.ge(0).all().item<bool>(), "repeats can not be negative");
    size = ends[-1].item<int64_t>();
  }
  const Tensor numbers = at::_ops::arange::call(*size, c10::kLong, std::nullopt, repeats.device(), std::nullopt);
  return at::_ops::searchsorted_Tensor::call(ends, numbers, false, true, std::nullopt, std::nullopt)
      .to(repeats.scalar_type());
}

} // namespace

Chosen choose(const Tensor &mask) {
  const Tensor counts = at::_ops::cumsum::call(mask.reshape({-1}), 0, c10::kLong);
  return {counts, counts.numel() ? counts[-1].item<int64_t>() : 0};
}

Tensor compacted(const Tensor &tensor, const Chosen &chosen) {
  const Tensor from = contiguous(tensor);
  Tensor out = empty_on(tensor, {chosen.total}, tensor.scalar_type());
  if (chosen.total == 0) return out;
  kernels::CompactArguments arguments{};
  arguments.input = from.const_data_ptr();
  launch_compact("compact", moved_as(from), arguments, chosen, out);
  return out;
}

void register_masks(torch::Library &aten) {
  aten.impl("nonzero", &jit::nonzero);
  aten.impl("nonzero.out", &jit::nonzero_out);
  aten.impl("masked_select", &jit::masked_select);
  aten.impl("masked_select.out", &jit::masked_select_out);
  aten.impl("masked_scatter_", &masked_scatter);
  aten.impl("repeat_interleave.Tensor", &repeated_places);
}

} // namespace tb::ops::jit
