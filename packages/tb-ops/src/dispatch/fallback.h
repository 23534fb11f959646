// The boxed kernels that run an operator on the CPU: what every operator without a kernel of ours gets.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include <torch/library.h>

#include "random/philox_state.h"
#include "runtime/synchronize.h"

namespace tb {

// Runs the CPU's kernel on the caller's thread over the same storages, after waiting for the stream; what it does to
// shapes and storages of its arguments is taken over. Only where the host may touch device memory.
// `wait`: why, as synchronize() tells it.
void run_on_aliases(const c10::OperatorHandle &op, torch::jit::Stack *stack, Wait wait = Wait::always);

// Runs one call on the CPU, counted, as operators without a kernel do: for kernels that lack a type or shape.
void counted_fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack);

// A CPU generator that continues the sequence of a tb generator, none: the device's own. Reproducible by
// torch.manual_seed, though not the numbers that tb's own random operators draw. In two steps, since captured work makes
// it anew at each launch.
Stretch reserve_cpu_generator(const std::optional<at::Generator> &given, c10::DeviceIndex device);
at::Generator cpu_generator(const Stretch &stretch);

// Convolutions by the counted fallback: for drivers without native ones.
void register_convolution_fallback(torch::Library &aten);

// Operators that wait by their nature, since the size of the result depends on the data: the CPU kernel on
// aliases is their native kernel, and no entry in the ledger. Only where the host may touch device memory, or where
// PyTorch's CUDA kernels run.
void register_waiting(torch::Library &aten);

// Every native kernel that waits for the device, with the reason: for the coverage listing.
std::vector<std::pair<std::string, std::string>> waiting_operators();

// From now on the operator runs on the CPU, counted, although it has a kernel; for finding the kernel that computes
// wrongly. As many releases as forces restore it. No other thread may be calling the operator meanwhile.
// Throws c10::ValueError when it does not exist, c10::NotImplementedError when the CPU cannot run it.
void force_fallback(const std::string &name, const std::string &overload);
void release_fallback(const std::string &name, const std::string &overload);
std::vector<std::string> forced_fallbacks();
bool is_forced(const char *name);

} // namespace tb
