// Operator calls as text, for errors: "(self: float32 [2, 3], dim: 1)".
#pragma once
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>

namespace tb::ops {

// "aten::std.correction".
std::string name_of(const c10::OperatorHandle &op);

// "float32 [2, 3]", and the device where that is not tb.
std::string describe(const at::Tensor &tensor);

// The arguments by name, without those that are None.
std::string describe_arguments(const c10::FunctionSchema &schema, c10::ArrayRef<c10::IValue> arguments);

} // namespace tb::ops
