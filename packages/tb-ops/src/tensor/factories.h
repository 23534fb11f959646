// Factories, storages and resizing.
#pragma once
#include <torch/library.h>

namespace tb::ops {

// Registers empty, set_, resize_ and similar operators, for any driver.
void register_factories(torch::Library &aten);

} // namespace tb::ops
