// Ranges and other tensors made from a few numbers.
#include "backends/host/iterator_stub.h"

#include <ATen/Dispatch.h>
#include <ATen/native/RangeFactories.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/eye_native.h>
#include <ATen/ops/logspace_native.h>

#include <cmath>

#include "backends/host/host.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor, c10::Scalar;

void eye_kernel(int64_t rows, int64_t columns, Tensor &out) { at::native::eye_out_cpu(rows, columns, out); }

Tensor &eye_rectangular(int64_t rows, int64_t columns, Tensor &out) {
  TORCH_CHECK(rows >= 0, "n must be greater or equal to 0, got ", rows);
  TORCH_CHECK(columns >= 0, "m must be greater or equal to 0, got ", columns);
  at::native::resize_output(out, {rows, columns});
  launch_kernel<"aten::eye", eye_kernel>(device_number(out), rows, columns, out);
  return out;
}

Tensor &eye(int64_t n, Tensor &out) { return eye_rectangular(n, n, out); }

// Throws at the call if the elements' type cannot hold an end. Otherwise the kernels would be the first to convert the
// ends, on the worker.
void check_ends(const Scalar &start, const Scalar &end, c10::ScalarType type) {
  AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(c10::kHalf, c10::kBFloat16, type, "linspace_cpu", [&] {
    start.to<scalar_t>(); // throws
    end.to<scalar_t>();
  });
}

void linspace(at::TensorIterator &iterator, const Scalar &start, const Scalar &end, int64_t steps) {
  check_ends(start, end, iterator.dtype());
  StubEntry<"aten::linspace", at::native::linspace_stub, Types::as_given>::launch(iterator, start, end, steps);
}

void logspace_kernel(const Scalar &start, const Scalar &end, int64_t steps, double base, Tensor &out) {
  at::native::logspace_out(start, end, steps, base, out);
}

Tensor &logspace(const Scalar &start, const Scalar &end, int64_t steps, double base, Tensor &out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  const c10::ScalarType type = out.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(type != c10::kBool || steps < 2, "\"logspace_cpu\" not implemented for 'Bool'");
  if (steps > 1) check_ends(start, end, type);
  if (steps == 1 && !out.is_complex() && type != c10::kBool) check_ends(std::pow(base, start.to<double>()), 0, type);
  if (out.numel() != steps) at::native::resize_output(out, {steps});
  launch_kernel<"aten::logspace", logspace_kernel>(device_number(out), start, end, steps, base, out);
  return out;
}

} // namespace

void register_ranges(torch::Library &aten) {
  enter_stub<"aten::arange", at::native::arange_stub>();
  at::native::linspace_stub.set_privateuse1_dispatch_ptr(&linspace);
  aten.impl("logspace.out", &logspace);
  aten.impl("eye.out", &eye);
  aten.impl("eye.m_out", &eye_rectangular);
}

} // namespace tb::ops::host
