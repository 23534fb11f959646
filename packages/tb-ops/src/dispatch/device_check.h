// Which devices the tensors of one call may be on: what PyTorch's generated kernels for CUDA check before each call.
// Kernels with types of their own check with common_device (structured/structured.h); this is for boxed calls, whose
// kernels would read and write the memory of any device.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string_view>

namespace tb::ops {

// Throws (runtime/same_device.h) if the tensors of a call are on different devices, and the operator takes no such
// tensors on CUDA either:
// - most operators take tensors of one device only, out= among them;
// - those without PyTorch's check (which build an iterator) also read numbers in tensors without dimensions on the CPU;
// - copies, indexing and operators on lists have rules of their own, which their kernels check;
// - operators of other libraries may read and write tensors on the CPU.
void check_devices(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments);

// Whether an operator, named "aten::mm" or "aten::add.out", takes tensors of one device only, and no numbers of the host.
bool needs_one_device(std::string_view operation);

// Returns the tb device on which a call makes its results: the one that it names, or that of its first tb tensor.
std::optional<c10::DeviceIndex> device_of_call(c10::ArrayRef<c10::IValue> arguments);

// The operators that PyTorch generates no check for, without "aten::", in order; the code generator writes them.
c10::ArrayRef<const char *> operators_without_device_check();

} // namespace tb::ops
