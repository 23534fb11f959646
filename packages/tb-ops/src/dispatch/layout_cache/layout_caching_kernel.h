// Operators without a kernel of their own, the layout of whose results follows from the layout of their arguments by a rule
// that is written only in the CPU's kernel. The first call with new shapes waits and runs the CPU's kernel, as the fallback
// does, and the layout of its results is cached. Later calls with such arguments are queued like any other. A failing call
// caches nothing, so argument errors are always raised by the call.
//
// These are all aten operators with a CPU kernel that nobody registered for this device and that PyTorch does not compose of
// others. If their schema or tags say that results are views or of a size that depends on data, or if their kernels check on
// the host (host_checks.h), the CPU's kernel runs with a wait at every call. Random operators get a CPU generator that
// continues the device's.
#pragma once
#include <string>
#include <vector>

#include <torch/library.h>

namespace tb::ops {

// After all other registrations. Only if the host may touch device memory and the driver runs closures.
void register_layout_cached(torch::Library &aten);

// Those that use the cache, and those that always wait since the size of their results depends on data: for the coverage
// listing.
const std::vector<std::string> &layout_cached_operators();
const std::vector<std::string> &sized_by_data();

} // namespace tb::ops
