// Fills with one value: fill_, zero_, masked_fill_.
#include "backends/host/iterator_stub.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/ops/fill_native.h>
#include <ATen/ops/masked_fill_native.h>
#include <ATen/ops/zero_native.h>

#include "backends/host/host.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

// Throws what the CPU's kernel throws for a number that the type cannot hold. On the worker it would throw too late for
// the caller.
void check_convertible(const c10::Scalar &value, c10::ScalarType type) {
  AT_DISPATCH_V2(type, "fill_cpu", AT_WRAP([&] { (void)value.to<scalar_t>(); }), at::kComplexHalf, at::kHalf, at::kBool,
                 at::kBFloat16, AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 AT_EXPAND(AT_FLOAT8_TYPES));
}

// As above for masked_fill_, whose kernel knows more types.
void check_convertible_if_known(const c10::Scalar &value, c10::ScalarType type) {
#define TB_CONVERT(number, name)                                                                                       \
  case c10::ScalarType::name:                                                                                          \
    return (void)value.to<number>();
  switch (type) {
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(TB_CONVERT)
    TB_CONVERT(uint16_t, UInt16)
    TB_CONVERT(uint32_t, UInt32)
    TB_CONVERT(uint64_t, UInt64)
  default:
    return;
  }
#undef TB_CONVERT
}

void fill_kernel(Tensor &self, const c10::Scalar &value) { at::native::fill_(self, value); }
void fill_tensor_kernel(Tensor &self, const Tensor &value) { at::native::fill_(self, value); }
void zero_kernel(Tensor &self) { at::native::zero_(self); }

Tensor &fill_scalar(Tensor &self, const c10::Scalar &value) {
  if (self.is_cpu()) return at::native::fill_(self, value); // from a number on the device
  check_convertible(value, self.scalar_type());
  if (self.numel() > 0) launch_kernel<"aten::fill_", fill_kernel>(device_number(self), self, value);
  return self;
}

Tensor &fill_tensor(Tensor &self, const Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  if (value.device() != self.device()) return fill_scalar(self, value.item());
  if (self.numel() > 0) launch_kernel<"aten::fill_", fill_tensor_kernel>(device_number(self), self, value);
  return self;
}

Tensor &zero(Tensor &self) {
  if (self.numel() > 0) launch_kernel<"aten::zero_", zero_kernel>(device_number(self), self);
  return self;
}

void masked_fill_kernel(Tensor &self, const Tensor &mask, const Tensor &value) {
  at::native::masked_fill__cpu(self, mask, value);
}

Tensor &masked_fill_scalar(Tensor &self, const Tensor &mask, const c10::Scalar &value) {
  check_convertible_if_known(value, self.scalar_type());
  return at::native::masked_fill__cpu(self, mask, value);
}

Tensor &masked_fill_tensor(Tensor &self, const Tensor &mask, const Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  if (value.device() != self.device()) return masked_fill_scalar(self, mask, value.item());
  TORCH_CHECK(mask.dtype() == c10::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.dtype());
  TORCH_CHECK(mask.device() == self.device(), "expected self and mask to be on the same device, but got mask on ",
              mask.device(), " and self on ", self.device());
  at::assert_no_partial_overlap(self, mask);
  const auto expanded = at::expand_inplace(self, mask, "masked_fill_");
  launch_kernel<"aten::masked_fill_", masked_fill_kernel>(device_number(self), self, *expanded, value);
  return self;
}

} // namespace

void register_fill(torch::Library &aten) {
  enter_stub<"aten::masked_fill_", at::native::masked_fill_stub>();
  aten.impl("fill_.Scalar", &fill_scalar);
  aten.impl("fill_.Tensor", &fill_tensor);
  aten.impl("zero_", &zero);
  aten.impl("masked_fill_.Scalar", &masked_fill_scalar);
  aten.impl("masked_fill_.Tensor", &masked_fill_tensor);
}

} // namespace tb::ops::host
