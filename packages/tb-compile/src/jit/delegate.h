// TorchScript's backend interface (torch::jit::backend<T>) for the device of PrivateUse1.
#pragma once

namespace tb::compile::jit {

// Registers the backend under the device's name, once a process.
void register_delegate();

} // namespace tb::compile::jit
