// Distinct elements and how often they occur: sorts, marks the first of each run of equal elements, and compacts.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_unique2_ops.h>
#include <ATen/ops/arange_ops.h>
#include <ATen/ops/bincount_ops.h>
#include <ATen/ops/isin_meta.h>
#include <ATen/ops/isin_ops.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/searchsorted_ops.h>
#include <ATen/ops/unique_consecutive_ops.h>
#include <ATen/ops/unique_dim_ops.h>

#include "backends/jit/jit.h"
#include "backends/jit/operators/indexing.h"
#include "backends/jit/operators/selection/masks.h"
#include "backends/jit/operators/selection/sorting.h"
#include "backends/jit/rows.h"
#include "tensor/outputs.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;
using Distinct = std::tuple<Tensor, Tensor, Tensor>; // elements, place of each element in those, counts

Tensor zeros_on(const Tensor &like, c10::IntArrayRef sizes, c10::ScalarType type) {
  return empty_on(like, sizes, type).zero_();
}
Tensor range_on(const Tensor &like, int64_t count) {
  return at::_ops::arange::call(count, c10::kLong, std::nullopt, like.device(), std::nullopt);
}

// The runs of equal elements.
struct Runs {
  Chosen firsts;
  Tensor starts; // the place of each run's first element
};

// `unequal` says of each element but the first whether it differs from the one before it.
Runs runs_of(const Tensor &unequal, int64_t count) {
  Tensor firsts = empty_on(unequal, {count}, c10::kBool);
  firsts.narrow(0, 0, 1).fill_(true);
  firsts.narrow(0, 1, count - 1).copy_(unequal);
  const Chosen chosen = choose(firsts);
  return {chosen, compacted(range_on(unequal, count), chosen)};
}

Tensor lengths_of(const Runs &runs, int64_t count) {
  Tensor ends = empty_on(runs.starts, {runs.firsts.total}, c10::kLong);
  ends.narrow(0, 0, runs.firsts.total - 1).copy_(runs.starts.narrow(0, 1, runs.firsts.total - 1));
  ends.narrow(0, runs.firsts.total - 1, 1).fill_(count);
  return ends.sub(runs.starts);
}

// Returns for each element the number of its run. `order` has the elements' places before the sort; it is undefined if
// there was none.
Tensor run_numbers(const Runs &runs, const Tensor &order) {
  const Tensor numbers = runs.firsts.counts.sub(1);
  return order.defined() ? empty_on(numbers, numbers.sizes(), c10::kLong).scatter_(0, order, numbers) : numbers;
}

Distinct nothing_of(const Tensor &self, bool inverse) {
  return {empty_on(self, {0}, self.scalar_type()),
          empty_on(self, inverse ? self.sizes() : c10::IntArrayRef{0}, c10::kLong), empty_on(self, {0}, c10::kLong)};
}

Distinct flat_distinct(const Tensor &self, const Tensor &sorted, const Tensor &order, bool inverse, bool counts) {
  const int64_t count = sorted.numel();
  const Runs runs = runs_of(sorted.narrow(0, 1, count - 1).ne(sorted.narrow(0, 0, count - 1)), count);
  const Tensor nothing = empty_on(self, {0}, c10::kLong);
  return {compacted(sorted, runs.firsts), inverse ? run_numbers(runs, order).view(self.sizes()) : nothing,
          counts ? lengths_of(runs, count) : nothing};
}

Distinct unique(const Tensor &self, bool sorted, bool inverse, bool counts) {
  if (!supported({&self})) return call_fallback<at::_ops::_unique2>(self, sorted, inverse, counts);
  if (self.numel() == 0) return nothing_of(self, inverse);
  const SortedRows rows = sort_rows(contiguous(self).view({-1}), false);
  return flat_distinct(self, rows.values, rows.places, inverse, counts);
}

// Distinct slices along a dimension; `slices` is the tensor as a matrix with a slice in each row, in the order `order`.
// As PyTorch's own kernels do, it gives places and counts whether they are asked for or not.
Distinct distinct_slices(const Tensor &self, int64_t dim, const Tensor &slices, const Tensor &order) {
  const int64_t count = slices.size(0);
  const Tensor unequal = slices.narrow(0, 1, count - 1).ne(slices.narrow(0, 0, count - 1)).any(1);
  const Runs runs = runs_of(unequal, count);
  const Tensor places = order.defined() ? order.index_select(0, runs.starts) : runs.starts;
  return {self.index_select(dim, places), run_numbers(runs, order), lengths_of(runs, count)};
}

Tensor slices_of(const Tensor &self, int64_t dim) {
  return contiguous(self.transpose(0, dim)).view({self.size(dim), -1});
}

Distinct unique_consecutive(const Tensor &self, bool inverse, bool counts, std::optional<int64_t> dim) {
  if (!supported({&self}) || (dim && self.numel() == 0))
    return call_fallback<at::_ops::unique_consecutive>(self, inverse, counts, dim);
  if (self.numel() == 0) return nothing_of(self, inverse);
  if (!dim || self.dim() == 0) {
    const Tensor flat = contiguous(self).view({-1});
    return flat_distinct(self, flat, {}, inverse, counts);
  }
  const int64_t along = at::maybe_wrap_dim(*dim, self.dim());
  return distinct_slices(self, along, slices_of(self, along), {});
}

// Sorts slices by their last element first, so that after the last stable sort the first element decides.
Distinct unique_slices(const Tensor &self, int64_t dim, bool sorted, bool inverse, bool counts) {
  constexpr int64_t most_columns = 64; // one sort each
  if (!supported({&self}) || self.numel() == 0 || self.dim() == 0 ||
      self.numel() / self.size(at::maybe_wrap_dim(dim, self.dim())) > most_columns)
    return call_fallback<at::_ops::unique_dim>(self, dim, sorted, inverse, counts);
  const int64_t along = at::maybe_wrap_dim(dim, self.dim());
  const Tensor slices = slices_of(self, along);
  Tensor order = range_on(self, slices.size(0));
  for (int64_t column = slices.size(1) - 1; column >= 0; column--) {
    const Tensor keys = slices.select(1, column).index_select(0, order);
    order = order.index_select(0, sort_rows(keys, false).places);
  }
  return distinct_slices(self, along, slices.index_select(0, order), order);
}

// ---- counting -----------------------------------------------------------------------------------------------------

Tensor bincount(const Tensor &self, const std::optional<Tensor> &given, int64_t least) {
  const Tensor weights = given.value_or(Tensor());
  const c10::ScalarType type = !weights.defined()                     ? c10::kLong
                               : weights.scalar_type() == c10::kFloat ? c10::kFloat
                                                                      : c10::kDouble;
  const c10::DeviceIndex device = self.device().index();
  if (!supported({&self, &weights}) || !c10::isIntegralType(self.scalar_type(), false) || !has_type(device, type) ||
      added_as(device, type) == c10::ScalarType::Undefined)
    return call_fallback<at::_ops::bincount>(self, given, least);
  TORCH_CHECK(least >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(!weights.defined() || (weights.dim() == 1 && weights.size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  if (self.numel() == 0) return zeros_on(self, {least}, c10::kLong);
  const Tensor numbers = self.to(c10::kLong);
  TORCH_CHECK(numbers.min().item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
  Tensor out = zeros_on(self, {std::max(numbers.max().item<int64_t>() + 1, least)}, type);
  return out.index_add_(0, numbers, weights.defined() ? weights.to(type) : empty_on(self, self.sizes(), type).fill_(1));
}

// ---- membership -----------------------------------------------------------------------------------------------------

Tensor &isin(const Tensor &elements, const Tensor &tested, bool unique, bool invert, Tensor &out) {
  if (!supported({&elements, &tested, &out}))
    return call_fallback<at::_ops::isin_Tensor_Tensor_out>(elements, tested, unique, invert, out);
  Out<at::meta::structured_isin_Tensor_Tensor> op(out);
  op.meta(elements, tested, unique, invert);
  if (tested.numel() == 0) return out.fill_(invert);
  const c10::ScalarType type = at::result_type(elements, tested);
  const Tensor wanted = elements.to(type), sorted = sort_rows(contiguous(tested.to(type)).view({-1}), false).values;
  const Tensor places = at::_ops::searchsorted_Tensor::call(sorted, contiguous(wanted).view({-1}), false, false,
                                                            std::nullopt, std::nullopt);
  const Tensor nearest = sorted.index_select(0, places.clamp_max(sorted.numel() - 1)).view(wanted.sizes());
  return out.copy_(invert ? nearest.ne(wanted) : nearest.eq(wanted));
}

} // namespace

void register_unique(torch::Library &aten) {
  aten.impl("_unique2", &unique);
  aten.impl("unique_consecutive", &jit::unique_consecutive);
  aten.impl("unique_dim", &unique_slices);
  aten.impl("bincount", &jit::bincount);
  aten.impl("isin.Tensor_Tensor_out", &jit::isin);
}

} // namespace tb::ops::jit
