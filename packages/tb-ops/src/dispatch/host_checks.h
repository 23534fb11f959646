// Operators whose kernels read on the host what tensors hold, and raise before they return. PyTorch's CUDA kernels do so too:
// "when inputs are on a CUDA device, this function synchronizes". They wait at every call, so that `try: svd(x)` catches the
// error. Errors that other kernels find in values are raised by the next wait.
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
  const char *when;                            // which calls check, as the coverage listing says; empty: all
  bool (*applies)(const NamedArguments &call); // null: to all calls
};

// Empty if the operator's kernel checks nothing on the host.
std::optional<HostCheck> host_check(const c10::OperatorHandle &op);

// (operator, when) of the native operators that check on the host, empty where in all calls: for the coverage listing.
std::vector<std::pair<std::string, std::string>> checked_operators();

// One call by the CPU's kernel on the caller's thread, after a wait.
void run_checked(const c10::OperatorHandle &op, torch::jit::Stack *stack);

} // namespace tb::ops
