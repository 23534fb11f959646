// The kernel of an operator that a vendor's table serves. It chooses an entry for each call, and calls the earlier kernel of
// the operator if no entry takes the call.
//
// What is found for a call (the entry, its plan, the layout of the outputs) is kept for later calls that are equal in
// everything but addresses, so PyTorch's meta function and the entry's `plan` run once for each combination.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <vector>

#include "backends/vendor/table.h"

namespace tb::ops::vendor {

enum class Form { functional, in_place, out };

// Returns the kernel of a form of an operator. `functional` is the form that returns new tensors, as many as `outputs`. The
// kernel that the dispatcher has for `op` now is the earlier one.
torch::CppFunction vendor_kernel(const c10::OperatorHandle &op, Form form, const c10::OperatorHandle &functional,
                                 size_t outputs, std::vector<Entry *> entries);

} // namespace tb::ops::vendor
