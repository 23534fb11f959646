// Operators without a kernel of their own whose results' layout follows from their arguments' layout, by a rule that is
// written only in the CPU's kernel. The first call with new shapes therefore waits and runs the CPU's kernel, as the
// fallback does; the layout of what it gave is remembered, and later calls with such arguments are queued like any
// other. Errors in arguments appear at the call, since a call that fails teaches nothing.
//
// Which operators: all of aten with a CPU kernel that nobody registered for this device and that PyTorch does not
// compose of others, unless their schema or tags say that results are views or of a size that depends on data: for those
// the CPU's kernel with a wait is all there can be. So it is for calls whose kernels check on the host (host_checks.h).
// Random ones get a CPU generator that continues the device's.
#pragma once
#include <string>
#include <vector>

#include <torch/library.h>

namespace tb {

// After all other registrations. Only where the host may touch device memory and the driver runs closures.
void register_learned(torch::Library &aten);

// Those that learn, and those that always wait since the size of their results depends on data: for the coverage listing.
const std::vector<std::string> &learned_operators();
const std::vector<std::string> &sized_by_data();

} // namespace tb
