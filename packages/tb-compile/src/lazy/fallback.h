// What becomes of operators that PyTorch has no lazy kernel for.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tb::lazy {

// Traces the operator, or runs it eagerly.
void trace_or_run(const c10::OperatorHandle &op, torch::jit::Stack *stack);

// Runs the operator on the device at once: a break of the lazy graph, which the counter "tb::NAME" counts.
void run_eagerly(const c10::OperatorHandle &op, torch::jit::Stack *stack);

} // namespace tb::lazy
