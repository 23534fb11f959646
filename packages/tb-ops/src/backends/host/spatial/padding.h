// Called by register_pooling.
#pragma once
#include <torch/library.h>

namespace tb {

void register_padding(torch::Library &aten);

} // namespace tb
