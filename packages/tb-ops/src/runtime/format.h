// Operator calls as text, for errors: "(self: float32 [2, 3], dim: 1)".
#pragma once
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>

namespace tb {

// "aten::std.correction".
std::string name_of(const c10::OperatorHandle &op);

// "float32 [2, 3]", and the device where that is not tb.
std::string describe(const at::Tensor &tensor);

// The arguments by name, without those that are None.
std::string describe_arguments(const c10::FunctionSchema &schema, c10::ArrayRef<c10::IValue> arguments);

// On a worker: the tensors that the running closure has got so far, by type. In argument.cpp, which hands them out.
std::string describe_aliases();

} // namespace tb
