// GradScaler's two operators for backends without kernels of their own for them. They are made of other operators of the
// tensors' own device: they wait for nothing and read nothing back, so they are as asynchronous as those are.
//
// All but views, stack and casts are structured operators, which a backend has first. Semantics are those of PyTorch's
// CPU and CUDA kernels (ATen/native/cuda/AmpKernels.cu); c10::Error for tensors that those refuse.
#pragma once
#include <ATen/core/Tensor.h>

namespace tb::amp {

// Multiplies every gradient by inv_scale (float32, one element), in float32 for 16-bit ones; found_inf (float32, one
// element) becomes 1 if any element was infinite or not a number, else it stays.
void unscale(at::TensorList gradients, at::Tensor &found_inf, const at::Tensor &inv_scale);

// scale (float32), growth_tracker (int32), found_inf (float32): one element each. With found_inf: scale *= backoff,
// growth_tracker = 0. Without, growth_tracker counts up to growth_interval, and there scale *= growth, unless that is
// not finite, and the count begins again.
at::Tensor &update_scale(at::Tensor &scale, at::Tensor &growth_tracker, const at::Tensor &found_inf, double growth,
                         double backoff, int64_t growth_interval);

// Registers them for PrivateUse1 devices. One that the backend has a kernel of its own for is left to it.
void register_scaler();
// Undoes it, for a backend that is about to register kernels of its own. Under Python's lock, like the other.
void withdraw_scaler();

} // namespace tb::amp
