// Runs one call of an operator with the kernels of another torch device, over the memory of tb tensors or copies of it.
#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/DispatchKey.h>
#include <torch/library.h>

#include <atomic>
#include <cstdint>

#include "runtime/synchronize.h"

namespace tb::ops {

// The device whose kernels run. For the CPU the call waits for the current stream and then runs. For another backend it
// is queued on the current stream, which needs the driver's groups ASYNC and NATIVE, and memory and streams that are
// the backend's as well.
struct TargetBackend {
  c10::DeviceType type;
  c10::DispatchKey key;
  bool waits = type == c10::DeviceType::CPU; // for the stream before the call; the wait is reported like tb's own
};
inline constexpr TargetBackend cpu_backend{c10::kCPU, c10::DispatchKey::CPU};

// Runs the kernel on the caller's thread, over tensors of the target that alias the arguments. What the kernel does to
// the shapes and storages of the aliases is done to the arguments too.
void redispatch_aliased(const c10::OperatorHandle &op, torch::jit::Stack *stack, TargetBackend target,
                        SyncReason why = SyncReason::data_dependent);

// Does the same with the CPU's kernel. If the host may not touch device memory, it gets copies of the arguments, and what
// it writes to them is copied back.
void redispatch_to_cpu(const c10::OperatorHandle &op, torch::jit::Stack *stack,
                       SyncReason why = SyncReason::data_dependent);

// Counts new results that were copied from the memory of another backend's allocator into the device's own.
struct RedispatchCopies {
  std::atomic<uint64_t> results{0}, bytes{0};
};
RedispatchCopies &redispatch_copies();

} // namespace tb::ops
