// Registrations, called once when the driver opens. Nothing is registered in static initialisers: which set of kernels
// fits is known only then, and importing the package must not change PyTorch.
#pragma once
#include <torch/library.h>

namespace tb {

void register_factories(torch::Library &aten);      // empty, set_, resize: any driver
void register_copies(torch::Library &aten);         // between every pair of devices: any driver
void register_fallback();                           // everything without a kernel: any driver
void register_structured(torch::Library &aten);     // generated
void register_foreach_forms(torch::Library &aten);  // generated
void register_routed_views(torch::Library &aten);   // PyTorch's own bodies, from routes.yaml: any driver
void register_routed_kernels(torch::Library &aten); // the same, of operators that end in our kernels
void register_native(torch::Library &aten);         // hand-written kernels
void register_random(torch::Library &aten);         // fills from tb-generator
void register_host_random(torch::Library &aten);    // the same where the host may not touch the memory, by copies
void register_composed_dropout(torch::Library &aten);

} // namespace tb
