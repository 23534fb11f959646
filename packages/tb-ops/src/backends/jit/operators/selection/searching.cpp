// Places of values in sorted rows.
#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/bucketize_ops.h>
#include <ATen/ops/searchsorted_ops.h>

#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;
using Side = std::optional<c10::string_view>;
using OptionalTensor = std::optional<Tensor>;

// The type in which values and boundaries are compared.
c10::ScalarType compared_type(const Tensor &boundaries, const Tensor &values) {
  if (boundaries.scalar_type() == values.scalar_type()) return values.scalar_type();
  at::native::ResultTypeState state{};
  state = at::native::update_result_type_state(boundaries, state);
  return at::native::result_type(at::native::update_result_type_state(values, state));
}

bool searchable(const Tensor &boundaries, const Tensor &values, const Tensor &out) {
  return supported({&boundaries, &values, &out}) && has_type(boundaries.device().index(), values.scalar_type()) &&
         (boundaries.device() != values.device() ||
          has_type(boundaries.device().index(), compared_type(boundaries, values)));
}

Tensor &search_into(const Tensor &boundaries, const Tensor &values, bool out_int32, bool right, Side side,
                    const OptionalTensor &given_order, Tensor &out) {
  const Tensor order = given_order.value_or(Tensor());
  if (!searchable(boundaries, values, out))
    return call_fallback<at::_ops::searchsorted_Tensor_out>(boundaries, values, out_int32, right, side, given_order,
                                                            out);
  at::native::searchsorted_pre_check(boundaries, values, out, out_int32, right, side, order);
  at::native::resize_output(out, values.sizes());
  const c10::ScalarType type = compared_type(boundaries, values);
  const Tensor sorted = contiguous(boundaries.to(type)), wanted = contiguous(values.to(type)),
               places = contiguous(order);
  with_contiguous(out, [&](const Tensor &to) {
    kernels::SearchArguments arguments{};
    arguments.count = to.numel(), arguments.size = sorted.size(-1);
    arguments.values_of_row = wanted.dim() ? wanted.size(-1) : 1;
    arguments.values = wanted.const_data_ptr(), arguments.boundaries = sorted.const_data_ptr();
    if (places.defined()) arguments.order = static_cast<const kernels::Long *>(places.const_data_ptr());
    arguments.output = to.mutable_data_ptr();
    arguments.right = right || (side && *side == "right"), arguments.shared = sorted.dim() == 1;
    const std::string body = std::string("search<") + type_name(type) + ", " + type_name(to.scalar_type()) + ">";
    launch_elements(device_number(to), {"search.cuh", body, "SearchArguments"}, to.numel(), arguments);
  });
  return out;
}

Tensor places_on(const Tensor &boundaries, bool out_int32) {
  return empty({0}, {}, out_int32 ? c10::kInt : c10::kLong, device_number(boundaries));
}

Tensor searchsorted(const Tensor &boundaries, const Tensor &values, bool out_int32, bool right, Side side,
                    const OptionalTensor &order) {
  Tensor out = places_on(boundaries, out_int32);
  return search_into(boundaries, values, out_int32, right, side, order, out);
}
Tensor searchsorted_scalar(const Tensor &boundaries, const c10::Scalar &value, bool out_int32, bool right, Side side,
                           const OptionalTensor &order) {
  return searchsorted(boundaries, at::native::searchsorted_scalar_tensor(value, boundaries.device()), out_int32, right,
                      side, order);
}
Tensor &searchsorted_scalar_out(const Tensor &boundaries, const c10::Scalar &value, bool out_int32, bool right,
                                Side side, const OptionalTensor &order, Tensor &out) {
  return search_into(boundaries, at::native::searchsorted_scalar_tensor(value, boundaries.device()), out_int32, right,
                     side, order, out);
}

void check_boundaries(const Tensor &boundaries) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
}
Tensor bucketize(const Tensor &values, const Tensor &boundaries, bool out_int32, bool right) {
  check_boundaries(boundaries);
  return searchsorted(boundaries, values, out_int32, right, std::nullopt, std::nullopt);
}
Tensor &bucketize_out(const Tensor &values, const Tensor &boundaries, bool out_int32, bool right, Tensor &out) {
  check_boundaries(boundaries);
  return search_into(boundaries, values, out_int32, right, std::nullopt, std::nullopt, out);
}
Tensor bucketize_scalar(const c10::Scalar &value, const Tensor &boundaries, bool out_int32, bool right) {
  return bucketize(at::native::searchsorted_scalar_tensor(value, boundaries.device()), boundaries, out_int32, right);
}

} // namespace

void register_searching(torch::Library &aten) {
  aten.impl("searchsorted.Tensor", &jit::searchsorted);
  aten.impl("searchsorted.Tensor_out", &search_into);
  aten.impl("searchsorted.Scalar", &searchsorted_scalar);
  aten.impl("searchsorted.Scalar_out", &searchsorted_scalar_out);
  aten.impl("bucketize.Tensor", &jit::bucketize);
  aten.impl("bucketize.Tensor_out", &jit::bucketize_out);
  aten.impl("bucketize.Scalar", &bucketize_scalar);
}

} // namespace tb::ops::jit
