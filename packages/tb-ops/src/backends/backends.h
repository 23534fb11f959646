// Which operators serve which driver: one ordered list of backends.
//
// Several backends may serve one driver. They register in the order of the list: host, torch_cuda, jit, aclnn,
// host_copy, vendor. A later one takes only what is still free, but vendor puts its kernels in front of the others'.
// Operators that no backend takes run by the default kernel (dispatch/fallback.h). A new backend is a new row in
// backends.cpp.
//
// Nothing is registered in static initialisers: the driver is known only when it is open, and importing the package
// must not change PyTorch.
#pragma once
#include <torch/library.h>

#include <vector>

#include "runtime/runtime.h"

namespace tb::ops {

struct OperatorBackend {
  const char *name;
  const char *description; // for users: what its operators are
  const char *rule;        // for users: which drivers it serves
  // Says whether the backend serves the open driver. Called once, before anything is registered. Throws c10::Error if
  // an environment variable asks for something impossible.
  bool (*serves)(const Runtime &runtime);
  // Registers the device's kernels in `aten`, and kernels for the autograd key in `autograd`.
  void (*install)(torch::Library &aten, torch::Library &autograd);
};

struct BackendState {
  const OperatorBackend *backend;
  bool serves;
};

// Every backend, in order, and whether it serves the open driver. Empty before initialize().
const std::vector<BackendState> &backends();

// Opens the driver and registers the operators at the first call; later calls are cheap. The caller must not hold
// Python's lock, since opening the driver may take it. If the driver cannot be opened, or a variable asks for something
// impossible, nothing is registered, and a later call may succeed.
void initialize();

} // namespace tb::ops
