// Reductions over any dimensions.
#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"
#include "tb/torch_versions.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/all_meta.h>
#include <ATen/ops/all_ops.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amax_ops.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/amin_ops.h>
#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/aminmax_ops.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/any_ops.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmax_ops.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/argmin_ops.h>
#include <ATen/ops/count_nonzero_ops.h>
#include <ATen/ops/equal_ops.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/linalg_vector_norm_ops.h>
#include <ATen/ops/max_meta.h>
#include <ATen/ops/max_ops.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/min_meta.h>
#include <ATen/ops/min_ops.h>
#include <ATen/ops/norm_meta.h>
#include <ATen/ops/norm_ops.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/prod_ops.h>
#include <ATen/ops/std_ops.h>
#include <ATen/ops/sum_meta.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/trace_ops.h>
#include <ATen/ops/var_ops.h>

namespace tb::ops::jit {
namespace {

using at::Tensor;
using Dims = at::OptionalIntArrayRef;

// Some dimensions of a tensor, the fastest first. Adjacent dimensions are merged if their strides allow it.
struct Walk {
  int dims = 0;
  int64_t count = 1;
  kernels::Long sizes[kernels::max_dims] = {}, strides[kernels::max_dims] = {};

  void add(int64_t size, int64_t stride) {
    count *= size;
    if (size == 1) return;
    if (dims > 0 && strides[dims - 1] * sizes[dims - 1] == stride) {
      sizes[dims - 1] *= size;
      return;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(dims < kernels::max_dims, "a reduction over a tensor of more than ", kernels::max_dims,
                                " dimensions that do not merge. Make it contiguous first");
    sizes[dims] = size, strides[dims] = stride, dims++;
  }
};

// Runs a reducer of reduce.cuh over `dims` of `self` (over all dimensions if `dims` is empty), with the elements
// converted to `common`. The outputs `value` and `place` are contiguous or undefined.
void reduce(const char *reducer, const Tensor &self, Dims dims, c10::ScalarType common, const Tensor &value,
            const Tensor &place, c10::ArrayRef<c10::Scalar> scalars) {
  const auto reduced = at::native::make_dim_mask(dims, self.dim());
  const auto size = static_cast<int64_t>(self.element_size());
  Walk kept, gone;
  for (int64_t d = self.dim() - 1; d >= 0; d--)
    (reduced[static_cast<size_t>(d)] ? gone : kept).add(self.size(d), self.stride(d) * size);
  kernels::ReduceArguments arguments{};
  arguments.outputs = kept.count, arguments.reduced = gone.count;
  arguments.kept_dims = kept.dims, arguments.reduced_dims = gone.dims;
  std::copy_n(kept.sizes, kernels::max_dims, arguments.kept_sizes);
  std::copy_n(kept.strides, kernels::max_dims, arguments.kept_strides);
  std::copy_n(gone.sizes, kernels::max_dims, arguments.reduced_sizes);
  std::copy_n(gone.strides, kernels::max_dims, arguments.reduced_strides);
  arguments.input = operand_of(self);
  if (value.defined()) arguments.output = operand_of(value);
  if (place.defined()) arguments.second = operand_of(place);
  std::transform(scalars.begin(), scalars.end(), arguments.scalars, scalar_of);
  // A block computes each output if its threads read adjacent elements or there are too few outputs to fill a device.
  // Otherwise a thread computes each output.
  const bool neighbours = gone.dims > 0 && (kept.dims == 0 || gone.strides[0] <= kept.strides[0]);
  const bool block = gone.count >= 64 && (neighbours || kept.count < 1024);
  const char *type = type_name(common);
  const std::string body =
      std::string(block ? "reduce_long<" : "reduce_short<") + reducer + "<" + type + ">, " + type + ">";
  const Kernel kernel{"reduce.cuh", body, "ReduceArguments", 256, block};
  if (block)
    launch_rows(device_number(self), kernel, kept.count, arguments);
  else
    launch_elements(device_number(self), kernel, kept.count, arguments);
}

void reduce_into(const char *reducer, const Tensor &self, Dims dims, c10::ScalarType common, const Tensor &out,
                 c10::ArrayRef<c10::Scalar> scalars = {}) {
  with_contiguous(out, [&](const Tensor &to) { reduce(reducer, self, dims, common, to, {}, scalars); });
}

int64_t reduced_count(const Tensor &self, Dims dims) {
  const auto reduced = at::native::make_dim_mask(dims, self.dim());
  int64_t count = 1;
  for (int64_t d = 0; d < self.dim(); d++)
    if (reduced[static_cast<size_t>(d)]) count *= self.size(d);
  return count;
}

Tensor &sum(const Tensor &self, Dims dims, bool keep, std::optional<c10::ScalarType> type, Tensor &out) {
  if (!supported({&self, &out})) return call_fallback<at::_ops::sum_IntList_out>(self, dims, keep, type, out);
  Out<at::meta::structured_sum_dim_IntList> op(out);
  op.meta(self, dims, keep, type);
  reduce_into("SumOf", self, dims, out.scalar_type(), out, {1});
  return out;
}

Tensor &mean(const Tensor &self, Dims dims, bool keep, std::optional<c10::ScalarType> type, Tensor &out) {
  if (!supported({&self, &out}) || !c10::isFloatingType(out.scalar_type()))
    return call_fallback<at::_ops::mean_out>(self, dims, keep, type, out);
  Out<at::meta::structured_mean_dim> op(out);
  op.meta(self, dims, keep, type);
  reduce_into("SumOf", self, dims, out.scalar_type(), out, {static_cast<double>(reduced_count(self, dims))});
  return out;
}

Tensor &prod(const Tensor &self, int64_t dim, bool keep, std::optional<c10::ScalarType> type, Tensor &out) {
  if (!supported({&self, &out})) return call_fallback<at::_ops::prod_int_out>(self, dim, keep, type, out);
  Out<at::meta::structured_prod_dim_int> op(out);
  op.meta(self, dim, keep, type);
  reduce_into("ProductOf", self, c10::IntArrayRef(dim), out.scalar_type(), out);
  return out;
}

template <class Op, class Meta, Name reducer>
Tensor &extremum(const Tensor &self, c10::IntArrayRef dims, bool keep, Tensor &out) {
  if (!supported({&self, &out})) return call_fallback<Op>(self, dims, keep, out);
  Out<Meta> op(out);
  op.meta(self, dims, keep);
  reduce_into(reducer.value, self, dims, self.scalar_type(), out);
  return out;
}

template <class Op, class Meta, Name reducer>
Tensor &logic_one(const Tensor &self, int64_t dim, bool keep, Tensor &out) {
  if (!supported({&self, &out})) return call_fallback<Op>(self, dim, keep, out);
  Out<Meta> op(out);
  op.meta(self, dim, keep);
  reduce_into(reducer.value, self, c10::IntArrayRef(dim), self.scalar_type(), out);
  return out;
}
template <class Op, class Meta, Name reducer>
Tensor &logic_some(const Tensor &self, Dims dims, bool keep, Tensor &out) {
  if (!supported({&self, &out})) return call_fallback<Op>(self, dims, keep, out);
  Out<Meta> op(out);
  op.meta(self, dims, keep);
  if (dims && dims->empty() && self.dim() > 0) return out.copy_(self.ne(0)); // an empty list reduces no dimension here
  reduce_into(reducer.value, self, dims, self.scalar_type(), out);
  return out;
}
template <class Op, class Meta, Name reducer> Tensor &logic_all(const Tensor &self, Tensor &out) {
  if (!supported({&self, &out})) return call_fallback<Op>(self, out);
  Out<Meta> op(out);
  op.meta(self);
  reduce_into(reducer.value, self, std::nullopt, self.scalar_type(), out);
  return out;
}

template <class Op, class Meta, Name reducer>
Tensor &place_of(const Tensor &self, std::optional<int64_t> dim, bool keep, Tensor &out) {
  if (!supported({&self, &out})) return call_fallback<Op>(self, dim, keep, out);
  Out<Meta> op(out);
  op.meta(self, dim, keep);
  const c10::IntArrayRef one = dim ? c10::IntArrayRef(*dim) : c10::IntArrayRef();
  with_contiguous(out, [&](const Tensor &to) {
    reduce(reducer.value, self, dim ? Dims(one) : Dims(), self.scalar_type(), {}, to, {});
  });
  return out;
}

template <class Op, class Meta, Name reducer> std::tuple<Tensor &, Tensor &>
extremum_and_place(const Tensor &self, int64_t dim, bool keep, Tensor &value, Tensor &place) {
  if (!supported({&self, &value, &place})) return call_fallback<Op>(self, dim, keep, value, place);
  Out<Meta, 2> op(value, place);
  op.meta(self, dim, keep);
  with_contiguous(value, [&](const Tensor &to) {
    with_contiguous(place, [&](const Tensor &where) {
      reduce(reducer.value, self, c10::IntArrayRef(dim), self.scalar_type(), to, where, {});
    });
  });
  return {value, place};
}

template <class Op, Name reducer> Tensor extremum_of_all(const Tensor &self) {
  if (!supported({&self})) return call_fallback<Op>(self);
  TORCH_CHECK(self.numel() > 0, reducer.value, ": the extremum of no element. Give it at least one");
  Tensor out = empty({}, {}, self.scalar_type(), device_number(self));
  reduce(reducer.value, self, std::nullopt, self.scalar_type(), out, {}, {});
  return out;
}

// Computes norms. The norm of a single element is its magnitude, whose power may be out of range; as PyTorch sees it, a
// tensor without dimensions has none along its dimension 0.
void norm_into(const Tensor &self, Dims dims, const c10::Scalar &order, const Tensor &out) {
  TORCH_CHECK(!order.isComplex(), "linalg.vector_norm: Expected a non-complex scalar as the order of norm.");
  const bool counted = self.dim() > 0 || !dims || dims->empty();
  const bool single = counted && order.toDouble() != 0 && reduced_count(self, dims) == 1;
  reduce_into("NormOf", self, dims, out.scalar_type(), out, {single ? c10::Scalar(1) : order});
}

Tensor &vector_norm(const Tensor &self, const c10::Scalar &order, Dims dims, bool keep,
                    std::optional<c10::ScalarType> type, Tensor &out) {
  if (!supported({&self, &out}))
    return call_fallback<at::_ops::linalg_vector_norm_out>(self, order, dims, keep, type, out);
  Out<at::meta::structured_linalg_vector_norm> op(out);
  op.meta(self, order, dims, keep, type);
  norm_into(self, dims, order, out);
  return out;
}

Tensor &norm(const Tensor &self, const std::optional<c10::Scalar> &order, c10::IntArrayRef dims, bool keep,
             Tensor &out) {
  if (!supported({&self, &out}) || out.scalar_type() != self.scalar_type())
    return call_fallback<at::_ops::norm_out>(self, order, dims, keep, out);
  Out<at::meta::structured_norm_ScalarOpt_dim> op(out);
  op.meta(self, meta_argument(order), dims, keep);
  norm_into(self, dims, order.value_or(2), out);
  return out;
}

template <class Op, class OutOp, bool root> Tensor &
variance_out(const Tensor &self, Dims dims, const std::optional<c10::Scalar> &correction, bool keep, Tensor &out) {
  if (!supported({&self, &out}) || !c10::isFloatingType(out.scalar_type()))
    return call_fallback<OutOp>(self, dims, correction, keep, out);
  check_variance_type(self.scalar_type());
  const auto reduced = at::native::make_dim_mask(dims, self.dim());
  const at::DimVector shape = at::native::shape_from_dim_mask(self, reduced, keep);
  at::native::resize_output(out, shape);
  reduce_into("VarianceOf", self, dims, self.scalar_type(), out, {correction.value_or(1).toDouble(), root ? 1 : 0});
  return out;
}
template <class Op, class OutOp, bool root>
Tensor variance(const Tensor &self, Dims dims, const std::optional<c10::Scalar> &correction, bool keep) {
  if (!supported({&self})) return call_fallback<Op>(self, dims, correction, keep);
  Tensor out = empty({0}, {}, self.scalar_type(), device_number(self));
  return variance_out<Op, OutOp, root>(self, dims, correction, keep, out);
}

Tensor trace(const Tensor &self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return self.diagonal().sum();
}

std::tuple<Tensor &, Tensor &> extrema(const Tensor &self, std::optional<int64_t> dim, bool keep, Tensor &lowest,
                                       Tensor &highest) {
  if (!supported({&self, &lowest, &highest}))
    return call_fallback<at::_ops::aminmax_out>(self, dim, keep, lowest, highest);
  Out<at::meta::structured_aminmax, 2> op(lowest, highest);
  op.meta(self, dim, keep);
  const c10::IntArrayRef dims = dim ? c10::IntArrayRef(*dim) : c10::IntArrayRef();
  return {lowest.copy_(self.amin(dims, keep)), highest.copy_(self.amax(dims, keep))};
}

Tensor count_nonzero(const Tensor &self, c10::IntArrayRef dims) {
  if (!supported({&self})) return call_fallback<at::_ops::count_nonzero_dim_IntList>(self, dims);
  return self.ne(0).sum(dims);
}

// Waits for the device, since the result is a number of the host.
bool equal(const Tensor &self, const Tensor &other) {
  if (!supported({&self, &other})) return call_fallback<at::_ops::equal>(self, other);
  common_device("aten::equal", {&self, &other});
  return self.sizes() == other.sizes() && self.eq(other).all().item<bool>();
}

} // namespace

void register_reductions(torch::Library &aten) {
  using namespace at;
  aten.impl("sum.IntList_out", &sum);
  aten.impl("mean.out", &mean);
  aten.impl("prod.int_out", &prod);
  aten.impl("amax.out", &extremum<_ops::amax_out, meta::structured_amax, "MaximumOf">);
  aten.impl("amin.out", &extremum<_ops::amin_out, meta::structured_amin, "MinimumOf">);
  aten.impl("any.out", &logic_one<_ops::any_out, meta::structured_any_dim, "AnyOf">);
  aten.impl("all.out", &logic_one<_ops::all_out, meta::structured_all_dim, "AllOf">);
  aten.impl("any.dims_out", &logic_some<_ops::any_dims_out, meta::structured_any_dims, "AnyOf">);
  aten.impl("all.dims_out", &logic_some<_ops::all_dims_out, meta::structured_all_dims, "AllOf">);
  aten.impl("any.all_out", &logic_all<_ops::any_all_out, meta::structured_any, "AnyOf">);
  aten.impl("all.all_out", &logic_all<_ops::all_all_out, meta::structured_all, "AllOf">);
  aten.impl("argmax.out", &place_of<_ops::argmax_out, meta::structured_argmax, "MaximumOf">);
  aten.impl("argmin.out", &place_of<_ops::argmin_out, meta::structured_argmin, "MinimumOf">);
  aten.impl("max.dim_max", &extremum_and_place<_ops::max_dim_max, meta::structured_max_dim, "MaximumOf">);
  aten.impl("min.dim_min", &extremum_and_place<_ops::min_dim_min, meta::structured_min_dim, "MinimumOf">);
  aten.impl("max", &extremum_of_all<_ops::max, "MaximumOf">);
  aten.impl("min", &extremum_of_all<_ops::min, "MinimumOf">);
  aten.impl("aminmax.out", &extrema);
  aten.impl("count_nonzero.dim_IntList", &jit::count_nonzero);
  aten.impl("equal", &jit::equal);
  aten.impl("trace", &jit::trace);
  aten.impl("linalg_vector_norm.out", &vector_norm);
  aten.impl("norm.out", &norm);
  aten.impl("var.correction", &variance<_ops::var_correction, _ops::var_correction_out, false>);
  aten.impl("var.correction_out", &variance_out<_ops::var_correction, _ops::var_correction_out, false>);
  aten.impl("std.correction", &variance<_ops::std_correction, _ops::std_correction_out, true>);
  aten.impl("std.correction_out", &variance_out<_ops::std_correction, _ops::std_correction_out, true>);
}

} // namespace tb::ops::jit
