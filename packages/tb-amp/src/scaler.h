// GradScaler's two operators for backends without their own kernels for them. They are composed of other operators of
// the tensors' device. They wait for nothing and read nothing back, so they are as asynchronous as those operators are.
//
// Except for views, stack and casts they use structured operators, which backends implement first. The semantics are
// those of PyTorch's CPU and CUDA kernels (ATen/native/cuda/AmpKernels.cu); tensors that those refuse throw c10::Error.
#pragma once
#include <ATen/core/Tensor.h>

namespace tb::amp {

// Multiplies every gradient by inv_scale (float32, one element); 16-bit gradients are multiplied in float32. found_inf
// (float32, one element) becomes 1 if any element is infinite or NaN, and is unchanged otherwise.
void unscale(at::TensorList gradients, at::Tensor &found_inf, const at::Tensor &inv_scale);

// scale (float32), growth_tracker (int32) and found_inf (float32) have one element each. If found_inf is not 0: scale
// *= backoff, growth_tracker = 0. Otherwise growth_tracker is incremented. When it reaches growth_interval it becomes
// 0, and scale *= growth unless the result is not finite.
at::Tensor &update_scale(at::Tensor &scale, at::Tensor &growth_tracker, const at::Tensor &found_inf, double growth,
                         double backoff, int64_t growth_interval);

// Registers the operators for PrivateUse1 devices, except those for which the backend has a kernel. Needs the GIL.
void register_scaler();
// Removes them again, for a backend that registers its own kernels next. Needs the GIL.
void withdraw_scaler();

} // namespace tb::amp
