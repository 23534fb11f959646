// Questions to PyTorch's autocast. ATen/autocast_mode.h declares these functions too, and includes all of ATen: ten
// seconds of a unit. One whose signature changes in PyTorch is an undefined symbol when an extension is linked or loaded.
#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>
#include <c10/macros/Export.h>

namespace at::autocast {

TORCH_API bool is_autocast_enabled(c10::DeviceType device_type);
TORCH_API bool is_autocast_cache_enabled();
TORCH_API c10::ScalarType get_autocast_dtype(c10::DeviceType device_type);

} // namespace at::autocast
