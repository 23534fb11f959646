// The checks of parameters that all normalizations share.
#pragma once
#include <ATen/native/cpu/mixed_data_type.h>

#include <algorithm>
#include <initializer_list>

#include "tensor/outputs.h"

namespace tb::ops::host {

using OptionalTensor = std::optional<at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Returns the type of parameters and statistics: float for a reduced-precision input with float parameters, else the
// type of the input.
inline c10::ScalarType parameter_type(const at::Tensor &input, const at::Tensor &weight, const at::Tensor &bias) {
  const bool mixed = at::native::is_mixed_type(input, weight, bias);
  if (mixed) at::native::check_mixed_data_type(input, weight, bias);
  return at::native::param_scalar_type(input, mixed);
}

// Whether parameters and statistics are vectors with an element for each channel, or absent. Other calls
// run the CPU's kernel with a wait, so that they return, or raise, exactly what it does.
inline bool by_channel(int64_t channels, std::initializer_list<const at::Tensor *> vectors) {
  return std::all_of(vectors.begin(), vectors.end(), [&](const at::Tensor *vector) {
    return !vector->defined() || (vector->dim() == 1 && vector->numel() == channels);
  });
}

} // namespace tb::ops::host
