// Elements in another order, and tensors whose elements follow from their places.
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/aminmax_ops.h>
#include <ATen/ops/count_nonzero_ops.h>
#include <ATen/ops/equal_ops.h>
#include <ATen/ops/eye_ops.h>
#include <ATen/ops/flip_ops.h>
#include <ATen/ops/roll_ops.h>
#include <ATen/ops/trace_ops.h>

#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/operators/indexing.h"
#include "backends/jit/pointwise.h"
#include "tensor/outputs.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;

// Copies with negative strides from the last element of each reversed dimension.
Tensor flip(const Tensor &self, c10::IntArrayRef dims) {
  const auto reversed = at::dim_list_to_bitset(dims, self.dim()); // throws for repeated dimensions
  if (!supported({&self}) || self.dim() > kernels::max_dims) return call_fallback<at::_ops::flip>(self, dims);
  Tensor out = empty_preserving(self, self.scalar_type());
  const auto size = static_cast<kernels::Long>(self.element_size());
  const kernels::Operand to = {out.mutable_data_ptr(), type_code(moved_as(self)), 0};
  auto *from = static_cast<const char *>(self.const_data_ptr());
  kernels::PointwiseArguments arguments{};
  arguments.count = self.numel(), arguments.dims = static_cast<int>(self.dim());
  for (int64_t d = 0; d < self.dim(); d++) {
    const int64_t place = self.dim() - 1 - d, step = self.stride(d) * size;
    const bool back = reversed[static_cast<size_t>(d)] && self.numel() > 0;
    arguments.sizes[place] = self.size(d);
    arguments.strides[0][place] = out.stride(d) * size;
    arguments.strides[1][place] = back ? -step : step;
    if (back) from += (self.size(d) - 1) * step;
  }
  arguments.operands[0] = to, arguments.operands[1] = {const_cast<char *>(from), to.type, 0};
  const std::string body = std::string("pointwise<Identity, ") + type_name(moved_as(self)) + ">";
  launch_elements(device_number(out), {"elementwise.cuh", body, "PointwiseArguments"}, arguments.count, arguments);
  return out;
}

Tensor roll_along(const Tensor &self, int64_t shift, int64_t dim) {
  const int64_t size = self.size(dim), first = size ? (shift % size + size) % size : 0;
  Tensor out = empty_on(self, self.sizes(), self.scalar_type());
  out.narrow(dim, first, size - first).copy_(self.narrow(dim, 0, size - first));
  out.narrow(dim, 0, first).copy_(self.narrow(dim, size - first, first));
  return out;
}

Tensor roll(const Tensor &self, c10::IntArrayRef shifts, c10::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) return roll_along(self.reshape({-1}), shifts[0], 0).view(self.sizes());
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  Tensor out = self;
  for (size_t i = 0; i < dims.size(); i++)
    out = roll_along(out, shifts[i], at::maybe_wrap_dim(dims[i], self.dim(), false));
  return out;
}

Tensor trace(const Tensor &self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return self.diagonal().sum();
}

Tensor &eye(int64_t n, int64_t m, Tensor &out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  out.resize_({n, m}).zero_();
  out.diagonal().fill_(1);
  return out;
}
Tensor &square_eye(int64_t size, Tensor &out) { return eye(size, size, out); }

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
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected all tensors to have the same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  return self.sizes() == other.sizes() && self.eq(other).all().item<bool>();
}

} // namespace

void register_rearranging(torch::Library &aten) {
  aten.impl("flip", &jit::flip);
  aten.impl("roll", &jit::roll);
  aten.impl("trace", &jit::trace);
  aten.impl("eye.out", &square_eye);
  aten.impl("eye.m_out", &eye);
  aten.impl("aminmax.out", &extrema);
  aten.impl("count_nonzero.dim_IntList", &jit::count_nonzero);
  aten.impl("equal", &jit::equal);
}

} // namespace tb::ops::jit
