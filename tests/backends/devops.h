// The host's functions of device_operators.yaml. Their results differ from those of the device's kernels.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/mul.h>

namespace devops {
inline void described(const at::Tensor &x, at::Tensor &result) { at::mul_out(result, x, at::Scalar(2)); }
inline void mix(const at::Tensor &x, double weight, at::Tensor &out, at::Tensor &norm) {
  at::mul_out(out, x, at::Scalar(weight));
  norm.fill_(1);
}
} // namespace devops
