// Operators for which PyTorch has no lazy kernel.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tb::compile::lazy {

// Traces the operator; if that is not possible, runs it eagerly.
void trace_or_run(const c10::OperatorHandle &op, torch::jit::Stack *stack);

// Runs the operator on the device at once. This ends the lazy graph; the counter "tb::NAME" counts it.
void run_eagerly(const c10::OperatorHandle &op, torch::jit::Stack *stack);

} // namespace tb::compile::lazy
