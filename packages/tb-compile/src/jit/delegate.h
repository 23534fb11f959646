// TorchScript's backend interface (torch::jit::backend<T>) on the device of PrivateUse1.
#pragma once

namespace tb::jit {

// Registers the backend under the device's name, once a process.
void register_delegate();

} // namespace tb::jit
