// Elements in another order.
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/flip_ops.h>

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
  if (self.numel() == 0) return self.clone(); // whatever the dimensions are
  Tensor out = self;
  for (size_t i = 0; i < dims.size(); i++)
    out = roll_along(out, shifts[i], at::maybe_wrap_dim(dims[i], self.dim(), false));
  return out;
}

} // namespace

void register_rearranging(torch::Library &aten) {
  aten.impl("flip", &jit::flip);
  aten.impl("roll", &jit::roll);
}

} // namespace tb::ops::jit
