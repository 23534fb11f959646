// Operators without a kernel of their own whose result layouts follow from the layouts of their arguments, by a rule
// that only the CPU's kernel knows. The first call with new shapes waits and runs the CPU's kernel, as the fallback
// does, and caches the layout of its results. Later calls with such arguments are queued like any other. A failing call
// caches nothing, so argument errors are always raised by the call.
//
// These are all aten operators with a CPU kernel that have no kernel for this device and that PyTorch does not compose
// of others. If their schema or tags say that results are views or of a size that depends on data, or if their kernels
// check on the host (host_checks.h), the CPU's kernel runs with a wait at every call. Random operators get a CPU
// generator that continues the device's sequence.
#pragma once
#include <string>
#include <vector>

#include <ATen/core/boxing/BoxedKernel.h>
#include <torch/library.h>

namespace tb::ops {

// Registers these operators. Call it after all other registrations. The host must be allowed to touch device memory,
// and the driver must run closures.
void register_layout_cached(torch::Library &aten);

// Returns such a kernel for an operator that has another one for some of its calls.
c10::BoxedKernel layout_caching_kernel(const c10::OperatorHandle &op);

// Return, for the coverage listing, the operators that use the cache, and those that always wait since the size of
// their results depends on data.
const std::vector<std::string> &layout_cached_operators();
const std::vector<std::string> &sized_by_data();

} // namespace tb::ops
