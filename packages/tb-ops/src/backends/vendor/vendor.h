// A vendor's own kernels, from tables in C (tb/kernels.h), in front of the kernels of the other backends.
#pragma once
#include <torch/library.h>

#include "runtime/runtime.h"

namespace tb::ops::vendor {

// Whether the tables (table.h) have entries.
bool serves(const Runtime &runtime);
// Registers the kernels of the operators that the tables serve. Their other calls run by the kernels that are registered
// before. An entry that serves nothing says why (Entry::problem), and a warning names it.
void install(torch::Library &aten, torch::Library &autograd);

} // namespace tb::ops::vendor
