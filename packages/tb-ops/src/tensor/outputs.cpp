// Chooses the layouts of outputs.
#include "tensor/outputs.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/copy_ops.h>

namespace tb::ops {

at::Tensor empty_preserving(const at::Tensor &like, c10::ScalarType dtype) {
  if (like.is_non_overlapping_and_dense()) return empty(like.sizes(), like.strides(), dtype, device_number(like));
  return empty_iterated(like, dtype);
}

at::Tensor empty_pointwise(const at::Tensor &like, c10::ScalarType dtype) {
  if (like.is_contiguous()) return empty(like.sizes(), {}, dtype, device_number(like));
  constexpr auto channels_last = c10::MemoryFormat::ChannelsLast;
  if (like.is_contiguous(channels_last)) return empty_formatted(like, like.sizes(), dtype, channels_last);
  return empty_preserving(like, dtype);
}

at::Tensor empty_iterated(const at::Tensor &like, c10::ScalarType dtype) {
  const std::vector<int64_t> strides = at::infer_dense_strides(like.sizes(), like.strides());
  return empty(like.sizes(), strides, dtype, device_number(like));
}

void copy_result(at::Tensor &dst, const at::Tensor &src) { at::_ops::copy_::call(dst, src, false); }

} // namespace tb::ops
