// Registers the lazy backend: kernels of the dispatch key Lazy, PyTorch's executor of lazy graphs, and the backend
// itself.
#pragma once
#include <string>
#include <vector>

namespace tb::compile::lazy {

// Registers once a process. The device must be open, so that its kernels are registered. RuntimeError: PyTorch's own
// lazy backend is registered, whose fallback cannot be replaced.
void register_backend();

// The operators of these names, such as "aten::mul", run eagerly from now on, and no others by force. ValueError: there is
// no such operator, or none that makes no views; what was forced before stays so. The GIL must be held.
void force_fallback(const std::vector<std::string> &names);

} // namespace tb::compile::lazy
