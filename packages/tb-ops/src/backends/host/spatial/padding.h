// Registers the padding operators of padding.cpp; register_pooling calls it.
#pragma once
#include <torch/library.h>

namespace tb::ops::host {

void register_padding(torch::Library &aten);

} // namespace tb::ops::host
