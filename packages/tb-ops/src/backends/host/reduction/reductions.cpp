// Reductions that PyTorch's code generator does not generate: variance, extremes, medians, products, dot products,
// comparison.
#include "backends/host/iterator_stub.h"
#include "launch/host_view.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/ReduceAllOps.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_cummax_helper_native.h>
#include <ATen/ops/_cummin_helper_native.h>
#include <ATen/ops/_logcumsumexp_native.h>
#include <ATen/ops/count_nonzero_native.h>
#include <ATen/ops/dot_native.h>
#include <ATen/ops/equal_native.h>
#include <ATen/ops/kthvalue_native.h>
#include <ATen/ops/median_native.h>
#include <ATen/ops/mode_native.h>
#include <ATen/ops/mode_ops.h>
#include <ATen/ops/nanmedian_native.h>
#include <ATen/ops/prod_native.h>
#include <ATen/ops/std_mean_native.h>
#include <ATen/ops/std_native.h>
#include <ATen/ops/var_mean_native.h>
#include <ATen/ops/var_native.h>
#include <ATen/ops/vdot_native.h>

#include "backends/host/host.h"
#include "dispatch/call_checked.h"
#include "tb/torch_versions.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;
using OptionalDims = at::OptionalIntArrayRef;
using Correction = std::optional<c10::Scalar>;

c10::DimVector reduced_shape(const Tensor &self, OptionalDims dims, bool keep) {
  const auto mask = at::native::make_dim_mask(dims, self.dim());
  return at::native::shape_from_dim_mask(self, mask, keep);
}

// ---- variance and standard deviation ----------------------------------------------------------------------------

using Variance = Tensor(const Tensor &, OptionalDims, const Correction &, bool);
using VarianceOut = Tensor &(const Tensor &, OptionalDims, const Correction &, bool, Tensor &);
using VarianceMean = std::tuple<Tensor, Tensor>(const Tensor &, OptionalDims, const Correction &, bool);

template <VarianceOut *function>
void variance_kernel(const Tensor &self, OptionalDims dims, const Correction &correction, bool keep, Tensor &out) {
  function(self, dims, correction, keep, out);
}

template <Name name, VarianceOut *function>
Tensor &variance_out(const Tensor &self, OptionalDims dims, const Correction &correction, bool keep, Tensor &out) {
  check_variance_type(self.scalar_type());
  const c10::DeviceIndex device = common_device(name.value, {&self, &out});
  at::native::resize_output(out, reduced_shape(self, dims, keep));
  launch_kernel<name, variance_kernel<function>>(device, self, dims, correction, keep, out);
  return out;
}

template <Name name, VarianceOut *function>
Tensor variance(const Tensor &self, OptionalDims dims, const Correction &correction, bool keep) {
  check_variance_type(self.scalar_type());
  Tensor out = empty_on(self, reduced_shape(self, dims, keep), c10::toRealValueType(self.scalar_type()));
  launch_kernel<name, variance_kernel<function>>(device_number(self), self, dims, correction, keep, out);
  return out;
}

template <VarianceMean *function> void variance_mean_kernel(const Tensor &self, OptionalDims dims,
                                                            const Correction &correction, bool keep, Tensor &variance,
                                                            Tensor &mean) {
  const auto [first, second] = function(self, dims, correction, keep);
  copy_result(variance, first);
  copy_result(mean, second);
}

template <Name name, VarianceMean *function> std::tuple<Tensor, Tensor>
variance_mean(const Tensor &self, OptionalDims dims, const Correction &correction, bool keep) {
  check_variance_type(self.scalar_type(), [](const Tensor &empty) { function(empty, {}, {}, false); });
  const c10::DimVector sizes = reduced_shape(self, dims, keep);
  Tensor out = empty_on(self, sizes, c10::toRealValueType(self.scalar_type()));
  Tensor mean = empty_on(self, sizes, self.scalar_type());
  launch_kernel<name, variance_mean_kernel<function>>(device_number(self), self, dims, correction, keep, out, mean);
  return {std::move(out), std::move(mean)};
}

// ---- to one number ----------------------------------------------------------------------------------------------

template <Name name, auto function, class... Arguments>
Tensor to_number(const Tensor &self, c10::ScalarType type, const Arguments &...arguments) {
  Tensor out = empty_on(self, {}, type);
  launch_kernel<name, copying<function>>(device_number(self), out, self, arguments...);
  return out;
}

Tensor median(const Tensor &self) {
  return to_number<"aten::median", at::native::median_cpu>(self, self.scalar_type());
}
Tensor nanmedian(const Tensor &self) {
  return to_number<"aten::nanmedian", at::native::nanmedian_cpu>(self, self.scalar_type());
}

Tensor prod(const Tensor &self, std::optional<c10::ScalarType> dtype) {
  const c10::ScalarType type = at::native::get_dtype_from_self(self, dtype, true);
  constexpr auto *function = overload<Tensor(const Tensor &, std::optional<c10::ScalarType>)>(at::native::prod);
  return to_number<"aten::prod", function>(self, type, dtype);
}

void check_vectors(const char *function, const Tensor &self, const Tensor &other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(),
              " elements respectively");
  common_device(function, {&self, &other});
}

Tensor dot(const Tensor &self, const Tensor &other) {
  check_vectors("aten::dot", self, other);
  return to_number<"aten::dot", at::native::dot>(self, self.scalar_type(), other);
}

Tensor vdot(const Tensor &self, const Tensor &other) {
  check_vectors("aten::vdot", self, other);
  return to_number<"aten::vdot", at::native::vdot>(self, self.scalar_type(), other);
}

Tensor count_nonzero(const Tensor &self, c10::IntArrayRef dims) {
  const c10::DimVector sizes = dims.empty() ? c10::DimVector() : reduced_shape(self, dims, false);
  Tensor out = empty_on(self, sizes, c10::kLong);
  launch_kernel<"aten::count_nonzero", copying<at::native::count_nonzero_cpu>>(device_number(self), out, self, dims);
  return out;
}

// Waits for the stream, because the result is a bool on the host.
bool equal(const Tensor &self, const Tensor &other) {
  TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ", self.device(),
              " and ", other.device());
  synchronize(device_number(self), "aten::equal");
  return at::native::cpu_equal(*HostView(self), *HostView(other));
}

// ---- values with indices ----------------------------------------------------------------------------------------

void resize_pair(const Tensor &self, int64_t dim, bool keep, Tensor &values, Tensor &indices) {
  const c10::DimVector sizes = reduced_shape(self, OptionalDims(dim), keep);
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), "Expected out tensor to have dtype ", self.dtype(),
              ", but got ", values.dtype(), " instead");
  TORCH_CHECK(indices.scalar_type() == c10::kLong, "Expected out tensor to have dtype long int, but got ",
              indices.dtype(), " instead");
  at::native::resize_output(values, sizes);
  at::native::resize_output(indices, sizes);
}

using Pair = std::tuple<Tensor &, Tensor &>;
using PairOut = Pair(const Tensor &, int64_t, bool, Tensor &, Tensor &);

template <PairOut *function>
void pair_kernel(const Tensor &self, int64_t dim, bool keep, Tensor &values, Tensor &indices) {
  function(self, dim, keep, values, indices);
}

template <Name name, PairOut *function>
Pair pair_out(const Tensor &self, int64_t dim, bool keep, Tensor &values, Tensor &indices) {
  dim = c10::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, dim, name.value);
  const c10::DeviceIndex device = common_device(name.value, {&self, &values, &indices});
  resize_pair(self, dim, keep, values, indices);
  launch_kernel<name, pair_kernel<function>>(device, self, dim, keep, values, indices);
  return {values, indices};
}

std::tuple<Tensor, Tensor> mode(const Tensor &self, int64_t dim, bool keep) {
  if (self.is_complex()) return call_checked<at::_ops::mode>(self, dim, keep); // a single number is its own mode
  Tensor values = empty_on(self, {0}, self.scalar_type()), indices = empty_on(self, {0}, c10::kLong);
  pair_out<"aten::mode", at::native::mode_out>(self, dim, keep, values, indices);
  return {std::move(values), std::move(indices)};
}

void kthvalue_kernel(const Tensor &self, int64_t k, int64_t dim, bool keep, Tensor &values, Tensor &indices) {
  at::native::kthvalue_out_cpu(self, k, dim, keep, values, indices);
}

Pair kthvalue_out(const Tensor &self, int64_t k, int64_t dim, bool keep, Tensor &values, Tensor &indices) {
  dim = c10::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.dim() > 0 ? self.size(dim) : 1;
  at::native::zero_numel_check_dims(self, dim, "kthvalue()");
  TORCH_CHECK(k >= 1 && k <= size, "kthvalue(): selected number k out of range for dimension ", dim);
  const c10::DeviceIndex device = common_device("aten::kthvalue", {&self, &values, &indices});
  at::assert_no_overlap(self, values); // before `values`, which may be `self`, is resized
  resize_pair(self, dim, keep, values, indices);
  launch_kernel<"aten::kthvalue", kthvalue_kernel>(device, self, k, dim, keep, values, indices);
  return {values, indices};
}

// ---- along a dimension ------------------------------------------------------------------------------------------

void cummax_kernel(const Tensor &self, Tensor &values, Tensor &indices, int64_t dim) {
  at::native::cummax_helper_cpu(self, values, indices, dim);
}
void cummax(const Tensor &self, Tensor &values, Tensor &indices, int64_t dim) {
  launch_kernel<"aten::cummax", cummax_kernel>(common_device("aten::cummax", {&self, &values, &indices}), self, values,
                                               indices, dim);
}

void cummin_kernel(const Tensor &self, Tensor &values, Tensor &indices, int64_t dim) {
  at::native::cummin_helper_cpu(self, values, indices, dim);
}
void cummin(const Tensor &self, Tensor &values, Tensor &indices, int64_t dim) {
  launch_kernel<"aten::cummin", cummin_kernel>(common_device("aten::cummin", {&self, &values, &indices}), self, values,
                                               indices, dim);
}

Tensor logcumsumexp(const Tensor &self, int64_t dim) {
  dim = c10::maybe_wrap_dim(dim, self.dim());
  Tensor out = empty_on(self, self.sizes(), self.scalar_type());
  launch_kernel<"aten::_logcumsumexp", donating<at::native::_logcumsumexp_cpu>>(device_number(self), out, self, dim);
  return out;
}

} // namespace

void register_reductions(torch::Library &aten) {
  enter_stub<"aten::max", at::native::max_all_stub>();
  enter_stub<"aten::min", at::native::min_all_stub>();
  aten.impl("var.correction", &variance<"aten::var", at::native::var_out>);
  aten.impl("std.correction", &variance<"aten::std", at::native::std_out>);
  aten.impl("var.correction_out", &variance_out<"aten::var", at::native::var_out>);
  aten.impl("std.correction_out", &variance_out<"aten::std", at::native::std_out>);
  aten.impl("var_mean.correction", &variance_mean<"aten::var_mean", at::native::var_mean>);
  aten.impl("std_mean.correction", &variance_mean<"aten::std_mean", at::native::std_mean>);
  aten.impl("median", &median);
  aten.impl("nanmedian", &nanmedian);
  aten.impl("median.dim_values", &pair_out<"aten::median", at::native::median_out_cpu>);
  aten.impl("nanmedian.dim_values", &pair_out<"aten::nanmedian", at::native::nanmedian_out_cpu>);
  aten.impl("mode", &mode);
  aten.impl("mode.values", &pair_out<"aten::mode", at::native::mode_out>);
  aten.impl("kthvalue.values", &kthvalue_out);
  aten.impl("prod", &prod);
  aten.impl("dot", &dot);
  aten.impl("vdot", &vdot);
  aten.impl("count_nonzero.dim_IntList", &count_nonzero);
  aten.impl("equal", &equal);
  aten.impl("_cummax_helper", &cummax);
  aten.impl("_cummin_helper", &cummin);
  aten.impl("_logcumsumexp", &logcumsumexp);
}

} // namespace tb::ops::host
