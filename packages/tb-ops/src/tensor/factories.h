// Factories, storages and resizing.
#pragma once
#include <torch/library.h>

namespace tb::ops {

// empty, set_, resize_: for any driver.
void register_factories(torch::Library &aten);

} // namespace tb::ops
