// Sorting, and picking the extreme elements of a row.
#include "backends/jit/operators/selection/sorting.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/gather_ops.h>
#include <ATen/ops/isnan_ops.h>
#include <ATen/ops/kthvalue_ops.h>
#include <ATen/ops/median_ops.h>
#include <ATen/ops/nanmedian_ops.h>
#include <ATen/ops/sort_meta.h>
#include <ATen/ops/sort_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/topk_meta.h>
#include <ATen/ops/topk_ops.h>
#include <ATen/ops/where_ops.h>

#include "backends/jit/device_kernel.h"
#include "backends/jit/rows.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;
constexpr int64_t tile = kernels::sort_tile;

int64_t size_of(const Tensor &rows) { return rows.size(-1); }
int64_t count_of(const Tensor &rows) { return size_of(rows) ? rows.numel() / size_of(rows) : 0; }

SortedRows empty_rows(const Tensor &like, int64_t size) {
  at::DimVector sizes(like.sizes().begin(), like.sizes().end());
  sizes.back() = size;
  const c10::DeviceIndex device = device_number(like);
  return {empty(sizes, {}, like.scalar_type(), device), empty(sizes, {}, c10::kLong, device)};
}

kernels::SortArguments arguments_of(const SortedRows &from, const SortedRows &to, bool descending) {
  kernels::SortArguments arguments{};
  arguments.rows = count_of(from.values), arguments.size = size_of(from.values);
  arguments.input = from.values.const_data_ptr(), arguments.output = to.values.mutable_data_ptr();
  if (from.places.defined()) arguments.input_places = static_cast<const kernels::Long *>(from.places.const_data_ptr());
  arguments.output_places = static_cast<kernels::Long *>(to.places.mutable_data_ptr());
  arguments.descending = descending;
  return arguments;
}

int64_t kept_of_row(int64_t size, int64_t kept) { return size / tile * kept + std::min(size % tile, kept); }

// Sorts tiles of the rows and keeps the first `kept` elements of each.
void sort_tiles(const SortedRows &from, const SortedRows &to, int64_t kept, bool descending) {
  kernels::SortArguments arguments = arguments_of(from, to, descending);
  arguments.kept = kept, arguments.kept_of_row = kept_of_row(arguments.size, kept);
  const int64_t each = arguments.size < tile ? tile / arguments.size : 1;
  const int64_t tiles = (arguments.rows + each - 1) / each * ((arguments.size + tile - 1) / tile);
  const Kernel kernel{"sort.cuh", instance("sort_tiles", from.values.scalar_type()), "SortArguments", 256, true};
  launch_rows(device_number(to.values), kernel, tiles, arguments);
}

void merge_runs(const SortedRows &from, const SortedRows &to, int64_t width, bool descending) {
  kernels::SortArguments arguments = arguments_of(from, to, descending);
  arguments.width = width;
  const Kernel kernel{"sort.cuh", instance("merge_runs", from.values.scalar_type()), "SortArguments"};
  launch_elements(device_number(to.values), kernel, from.values.numel(), arguments);
}

// Sorts contiguous rows into contiguous outputs.
void sort_into(const Tensor &rows, const SortedRows &out, bool descending) {
  const int64_t size = size_of(rows);
  if (rows.numel() == 0) return;
  if (size <= tile) return sort_tiles({rows, {}}, out, size, descending);
  const SortedRows scratch = empty_rows(rows, size);
  int64_t passes = 0;
  for (int64_t width = tile; width < size; width *= 2) passes++;
  const SortedRows *now = passes % 2 ? &scratch : &out, *next = passes % 2 ? &out : &scratch;
  sort_tiles({rows, {}}, *now, tile, descending);
  for (int64_t width = tile; width < size; width *= 2, std::swap(now, next)) merge_runs(*now, *next, width, descending);
}

// Writes the first `count` elements of the sorted rows.
void sort_first(const Tensor &rows, int64_t count, const SortedRows &out, bool descending) {
  if (count == 0 || rows.numel() == 0) return;
  if (count > tile / 2 && size_of(rows) > tile) {
    const SortedRows all = sort_rows(rows, descending);
    Tensor(out.values).copy_(all.values.narrow(-1, 0, count));
    Tensor(out.places).copy_(all.places.narrow(-1, 0, count));
    return;
  }
  // What a tile drops cannot be among the first of its row.
  SortedRows left{rows, {}};
  while (size_of(left.values) > tile) {
    const SortedRows fewer = empty_rows(rows, kept_of_row(size_of(left.values), count));
    sort_tiles(left, fewer, count, descending);
    left = fewer;
  }
  sort_tiles(left, out, count, descending);
}

std::tuple<Tensor &, Tensor &> sort(const Tensor &self, std::optional<bool> stable, int64_t dim, bool descending,
                                    Tensor &values, Tensor &places) {
  if (!supported({&self, &values, &places}))
    return call_fallback<at::_ops::sort_values_stable>(self, stable, dim, descending, values, places);
  Out<at::meta::structured_sort_stable, 2> op(values, places);
  op.meta(self, stable, dim, descending);
  const Tensor rows = contiguous(with_last(self, dim));
  with_rows(values, dim, [&](const Tensor &to) {
    with_rows(places, dim, [&](const Tensor &where) { sort_into(rows, {to, where}, descending); });
  });
  return {values, places};
}

std::tuple<Tensor &, Tensor &> topk(const Tensor &self, int64_t k, int64_t dim, bool largest, bool sorted,
                                    Tensor &values, Tensor &places) {
  if (!supported({&self, &values, &places}))
    return call_fallback<at::_ops::topk_values>(self, k, dim, largest, sorted, values, places);
  Out<at::meta::structured_topk, 2> op(values, places);
  op.meta(self, k, dim, largest, sorted);
  if (self.dim() == 0) { // whatever k is
    values.copy_(self);
    places.zero_();
    return {values, places};
  }
  const Tensor rows = contiguous(with_last(self, dim));
  with_rows(values, dim, [&](const Tensor &to) {
    with_rows(places, dim, [&](const Tensor &where) { sort_first(rows, k, {to, where}, largest); });
  });
  return {values, places};
}

// ---- one element of each row --------------------------------------------------------------------------------------

using Pair = std::tuple<Tensor &, Tensor &>;

// Writes the elements and places at `picked`, which has one place of each sorted row, or the same place for all rows.
Pair give_picked(const Tensor &self, int64_t dim, bool keep, const SortedRows &sorted, const Tensor &picked,
                 Tensor &values, Tensor &places) {
  const Tensor one = picked.expand([&] {
    at::DimVector sizes(sorted.values.sizes().begin(), sorted.values.sizes().end());
    sizes.back() = 1;
    return sizes;
  }());
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  if (self.dim() > 0) {
    const auto along = at::maybe_wrap_dim(dim, self.dim());
    if (keep)
      sizes[static_cast<size_t>(along)] = 1;
    else
      sizes.erase(sizes.begin() + along);
  }
  const auto give = [&](const Tensor &rows, Tensor &out) {
    at::native::resize_output(out, sizes);
    const Tensor found = at::_ops::gather::call(rows, -1, one, false);
    const Tensor shaped = self.dim() == 0 ? found.squeeze(0) : found.transpose(dim, -1);
    out.copy_(keep || self.dim() == 0 ? shaped : shaped.squeeze(dim));
  };
  give(sorted.values, values), give(sorted.places, places);
  return {values, places};
}

Tensor number_on(const Tensor &like, int64_t value) {
  Tensor out = empty({1}, {}, c10::kLong, device_number(like));
  return out.fill_(value);
}

Pair kth_value(const Tensor &self, int64_t k, int64_t dim, bool keep, Tensor &values, Tensor &places) {
  if (!supported({&self, &values, &places}) || values.scalar_type() != self.scalar_type() ||
      places.scalar_type() != c10::kLong)
    return call_fallback<at::_ops::kthvalue_values>(self, k, dim, keep, values, places);
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, dim, "kthvalue()");
  const int64_t size = self.dim() ? self.size(dim) : 1;
  TORCH_CHECK(k >= 1 && k <= size, "kthvalue(): selected number k out of range for dimension ", dim);
  at::assert_no_overlap(self, values);
  const Tensor rows = contiguous(with_last(self, dim));
  const SortedRows first = empty_rows(rows, k);
  sort_first(rows, k, first, false);
  return give_picked(self, dim, keep, first, number_on(self, k - 1), values, places);
}

// The median is a NaN if the row has one, unless those are ignored.
template <class Op, bool ignore>
Pair median(const Tensor &self, int64_t dim, bool keep, Tensor &values, Tensor &places) {
  if (!supported({&self, &values, &places}) || values.scalar_type() != self.scalar_type() ||
      places.scalar_type() != c10::kLong)
    return call_fallback<Op>(self, dim, keep, values, places);
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, dim, "median()");
  const SortedRows sorted = sort_rows(contiguous(with_last(self, dim)), false);
  const int64_t size = size_of(sorted.values);
  if (!c10::isFloatingType(self.scalar_type()))
    return give_picked(self, dim, keep, sorted, number_on(self, (size - 1) / 2), values, places);
  const Tensor numbers = at::_ops::isnan::call(sorted.values).logical_not().sum(-1, true);
  const Tensor picked = ignore ? numbers.sub(1).clamp_min(0).floor_divide(2)
                               : at::_ops::where_self::call(numbers.eq(size), number_on(self, (size - 1) / 2),
                                                            numbers.clamp_max(size - 1));
  return give_picked(self, dim, keep, sorted, picked, values, places);
}

template <class Op, class DimOp> Tensor median_of_all(const Tensor &self) {
  if (!supported({&self}) || self.numel() == 0) return call_fallback<Op>(self);
  return std::get<0>(DimOp::call(self.reshape({-1}), 0, false));
}

} // namespace

SortedRows sort_rows(const Tensor &rows, bool descending) {
  const SortedRows out = empty_rows(rows, size_of(rows));
  sort_into(rows, out, descending);
  return out;
}

void register_sorting(torch::Library &aten) {
  using namespace at;
  aten.impl("sort.values_stable", &jit::sort);
  aten.impl("topk.values", &jit::topk);
  aten.impl("kthvalue.values", &kth_value);
  aten.impl("median.dim_values", &jit::median<_ops::median_dim_values, false>);
  aten.impl("nanmedian.dim_values", &jit::median<_ops::nanmedian_dim_values, true>);
  aten.impl("median", &median_of_all<_ops::median, _ops::median_dim>);
  aten.impl("nanmedian", &median_of_all<_ops::nanmedian, _ops::nanmedian_dim>);
}

} // namespace tb::ops::jit
