// Registers the lazy backend: kernels under the dispatch key Lazy, PyTorch's executor of lazy graphs, the backend itself.
#pragma once

namespace tb::lazy {

// Once a process; the device must be open, so that its kernels are registered. RuntimeError where PyTorch's own lazy
// backend is there already: its fallback cannot be replaced.
void register_backend();

} // namespace tb::lazy
