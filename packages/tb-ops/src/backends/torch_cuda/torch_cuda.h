// Operators of the CUDA driver by the installed PyTorch's own CUDA kernels: tb tensors become CUDA tensors over the same
// bytes, the kernels run on the caller's thread and queue their work on tb's current stream.
#pragma once
#include <torch/library.h>

#include <atomic>
#include <string>

namespace tb {

// Decides, once the driver is open, whether this is how operators run: when the driver's memory and streams are CUDA's and
// PyTorch has kernels for the same devices. TB_CUDA_OPERATORS=own never, =torch always; throws when that cannot be.
void open_executor();
bool executor();

struct ExecutorState {
  std::string reason; // why it does not run operators; "" when it does
  // New results that lay in memory of PyTorch's CUDA allocator and were copied into the device's own.
  std::atomic<uint64_t> copies{0}, copied_bytes{0};
};
ExecutorState &executor_state();

// Operators with a CUDA kernel that PyTorch would compose of others on tb, such as foreach ones: after all else.
void register_executor(torch::Library &aten);

// Runs one call by PyTorch's CUDA kernel; operators without one go to the counted fallback. The second is for operators
// that wait by their nature: torch.tb.set_sync_debug_mode tells of them.
void execute(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack);
void execute_waiting(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack);

} // namespace tb
