// The device type of the backend, which may have any name.
#pragma once
#include <c10/core/Device.h>

namespace tb::compile {

constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;

} // namespace tb::compile
