// One call of an operator by the kernels of another torch device, over the bytes of tb tensors.
#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/DispatchKey.h>
#include <torch/library.h>

#include "runtime/synchronize.h"

namespace tb {

// Whose kernels run. Before the host's the stream is waited for; another backend's are queued on the stream, which needs
// the driver's groups ASYNC and NATIVE, and memory and streams that are the backend's as well.
struct Borrowed {
  c10::DeviceType type;
  c10::DispatchKey key;
  bool waits = type == c10::DeviceType::CPU; // for the stream, before the call: told as tb's own waits are
};
inline constexpr Borrowed host_kernels{c10::kCPU, c10::DispatchKey::CPU};

// Runs the kernel on the caller's thread. What it does to shapes and storages of its arguments is taken over.
void run_on_twins(const c10::OperatorHandle &op, torch::jit::Stack *stack, Borrowed kernels, Wait wait = Wait::always);

} // namespace tb
