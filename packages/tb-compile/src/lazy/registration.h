// Registers the lazy backend: kernels of the dispatch key Lazy, PyTorch's executor of lazy graphs, and the backend
// itself.
#pragma once

namespace tb::compile::lazy {

// Registers once a process. The device must be open, so that its kernels are registered. RuntimeError: PyTorch's own
// lazy backend is registered, whose fallback cannot be replaced.
void register_backend();

} // namespace tb::compile::lazy
