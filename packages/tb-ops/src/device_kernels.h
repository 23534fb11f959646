// Bindings of the kernels that run on the device: those of tb-ops in source, and those in images of others.
#pragma once
#include <nanobind/nanobind.h>

namespace tb::ops {

void bind_device_kernels(nanobind::module_ &core);
void bind_images(nanobind::module_ &core);

} // namespace tb::ops
