// Which operators serve which driver: one ordered list of backends.
//
// Several backends may serve one driver. They register in the order of the list. tb-ops' own take only what is still
// free, but vendor puts its kernels in front of the others'; one of another package may also replace kernels. Operators
// that no backend takes run by the default kernel (dispatch/fallback.h).
//
// The list is open: host, jit, host_copy and vendor are rows of backends.cpp, and tables by tb/operator_backend.h come
// to the places that they name.
//
// Nothing is registered in static initialisers: the driver is known only when it is open, and importing the package
// must not change PyTorch.
#pragma once
#include <string>
#include <vector>

#include "tb/operator_backend.h"

namespace tb::ops {

struct OperatorBackend {
  const tb_operator_backend *table;
  std::string source; // for users: the package and its function
};

struct BackendState {
  OperatorBackend backend;
  bool serves;
};

// The source of the backends of this package.
inline constexpr char own_source[] = "tb-ops";

// Replaces the backends beside those of backends.cpp. Each is put to its place behind those before it in `added`. To be
// called before initialize() succeeds. Throws c10::Error, and changes nothing, if a table is for another PyTorch or is
// incomplete, has a name that is taken, or names a place that is not there.
void set_added_backends(const std::vector<OperatorBackend> &added);

// Every backend, in order, and whether it serves the open driver. Empty before initialize().
std::vector<BackendState> backends();

// Opens the driver and registers the operators at the first call; later calls are cheap. The caller must not hold
// Python's lock, since opening the driver may take it. If the driver cannot be opened, or a variable asks for something
// impossible, nothing is registered, and a later call may succeed.
void initialize();

} // namespace tb::ops
