// Operators whose kernels read values of tensors on the host, and throw before they return. PyTorch's CUDA kernels do
// so too: "when inputs are on a CUDA device, this function synchronizes". These operators wait at every call, so that
// `try: svd(x)` catches the error. The next wait raises errors that other kernels find in values.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/library.h>

namespace tb::ops {

// The arguments of a call by name.
class NamedArguments {
public:
  NamedArguments(const c10::FunctionSchema &schema, c10::ArrayRef<c10::IValue> values)
      : schema_(schema), values_(values) {}
  const c10::IValue &operator[](const char *name) const;

private:
  const c10::FunctionSchema &schema_;
  c10::ArrayRef<c10::IValue> values_;
};

struct HostCheck {
  const char *when;                            // which calls check, for the coverage listing; empty for all
  bool (*applies)(const NamedArguments &call); // null if all calls check
};

// Returns which calls of the operator check on the host; empty if none does.
std::optional<HostCheck> host_check(const c10::OperatorHandle &op);

// Returns pairs (operator, HostCheck::when) of the native operators that check on the host, for the coverage listing.
std::vector<std::pair<std::string, std::string>> checked_operators();

// Waits for the stream and runs the CPU's kernel on the caller's thread.
void run_checked(const c10::OperatorHandle &op, torch::jit::Stack *stack);

} // namespace tb::ops
