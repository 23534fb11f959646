// PyTorch's own operator bodies, which the code generator registers from routes.yaml.
#pragma once
#include <torch/library.h>

namespace tb::ops {

void register_routed_views(torch::Library &aten);   // they change shapes and strides only, for any driver
void register_routed_kernels(torch::Library &aten); // bodies that end in kernels of the backend host

} // namespace tb::ops
