// Tracing of any operator without writes, by its schema: one kind of node, whose shapes come from the operator's kernel
// for meta tensors.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tb::compile::lazy {

// Replaces the arguments on the stack by lazy results. Returns false, and changes nothing, if the operator cannot be
// traced: it writes, its results are lists or depend on values, or its shapes are not known before it runs.
bool trace(const c10::OperatorHandle &op, torch::jit::Stack *stack);

} // namespace tb::compile::lazy
