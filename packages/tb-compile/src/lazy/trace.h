// Tracing of any operator without writes by its schema: one kind of node, whose shapes its kernel for meta tensors gives.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tb::lazy {

// Replaces the arguments on the stack by lazy results; false, and nothing has happened, where the operator cannot be
// traced: it writes, its results depend on values or are lists, it has no shapes without running.
bool trace(const c10::OperatorHandle &op, torch::jit::Stack *stack);

} // namespace tb::lazy
