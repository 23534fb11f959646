// Filling with one value, unit matrices, and putting tensors side by side.
#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"

#include <ATen/ops/cat_meta.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/zero_ops.h>

namespace tb::ops::jit {
namespace {

using at::Tensor;

Tensor &fill_scalar(Tensor &self, const c10::Scalar &value) {
  if (!supported({&self}) || value.isComplex()) return call_fallback<at::_ops::fill__Scalar>(self, value);
  if (self.numel() > 0) fill_elements(self, value);
  return self;
}

Tensor &fill_tensor(Tensor &self, const Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  if (value.device() != self.device()) return fill_scalar(self, value.item());
  if (!supported({&self, &value})) return call_fallback<at::_ops::fill__Tensor>(self, value);
  if (self.numel() > 0) self.copy_(value.expand(self.sizes()));
  return self;
}

Tensor &zero(Tensor &self) {
  if (self.numel() == 0) return self;
  if (!self.is_non_overlapping_and_dense()) {
    if (!supported({&self})) return call_fallback<at::_ops::zero_>(self);
    fill_elements(self, 0);
    return self;
  }
  const c10::DeviceIndex device = device_number(self);
  check(runtime.driver->mem_set(runtime.self, device, current_stream(device), self.mutable_data_ptr(), 0, 1,
                                self.nbytes()),
        "mem_set", device);
  return self;
}

Tensor &cat(const at::ITensorListRef &tensors, int64_t dim, Tensor &out) {
  common_device("aten::cat", tensors, out);
  Out<at::meta::structured_cat> op(out);
  const int64_t along = op.at::meta::structured_cat::meta(tensors, dim).dim;
  int64_t begin = 0;
  for (const Tensor &tensor : tensors) {
    if (tensor.dim() == 1 && tensor.numel() == 0) continue; // PyTorch ignores empty vectors
    const int64_t count = tensor.size(along);
    out.narrow(along, begin, count).copy_(tensor);
    begin += count;
  }
  return out;
}

Tensor &eye(int64_t n, int64_t m, Tensor &out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  out.resize_({n, m}).zero_();
  out.diagonal().fill_(1);
  return out;
}
Tensor &square_eye(int64_t size, Tensor &out) { return eye(size, size, out); }

} // namespace

void register_fills(torch::Library &aten) {
  aten.impl("eye.out", &square_eye);
  aten.impl("eye.m_out", &eye);
  aten.impl("fill_.Scalar", &fill_scalar);
  aten.impl("fill_.Tensor", &fill_tensor);
  aten.impl("zero_", &zero);
  aten.impl("cat.out", &cat);
}

} // namespace tb::ops::jit
