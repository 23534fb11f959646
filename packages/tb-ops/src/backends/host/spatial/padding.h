// Called by register_pooling.
#pragma once
#include <torch/library.h>

namespace tb::ops::host {

void register_padding(torch::Library &aten);

} // namespace tb::ops::host
