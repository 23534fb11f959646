// Runs the fallback.
#include "dispatch/fallback.h"

#include <ATen/record_function.h>

#include <vector>

#include "dispatch/device_check.h"
#include "dispatch/fallback_stats.h"
#include "dispatch/redispatch.h"
#include "runtime/format.h"
#include "runtime/runtime.h"

namespace tb::ops {
namespace {

void fall_back(const c10::OperatorHandle &op, torch::jit::Stack *stack, bool forced) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), name_of(op),
                              " has no kernel on this tb device, nor one on the CPU that could run instead: it is for "
                              "other devices or layouts. `python -m tb_ops.coverage` says which");
  const auto last = [&](size_t count) { return c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - count); };
  const auto arguments = last(op.schema().arguments().size());
  check_devices(op, arguments);
  FallbackCall call(op, arguments, forced);
  at::RecordFunction event(at::RecordScope::FUNCTION);
  if (event.isActive()) event.before("tb::fallback " + call.name(), arguments);
  redispatch_to_cpu(op, stack);
  call.returned(last(op.schema().returns().size()));
}

void run_unregistered(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  counted_fallback(op, stack);
}

BoxedKernel *default_kernel = &run_unregistered;

void run_default_kernel(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  default_kernel(op, keys, stack);
}

// PyTorch sends the convolutions of devices that it does not know to operators that refuse everything. This kernel
// sends them on to the operators of the CPU, which take all kinds of convolution.
constexpr int64_t arguments_of_backward = 10;
void convolution(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  const bool backward = std::ssize(op.schema().arguments()) == arguments_of_backward;
  if (backward) { // bias_sizes is its fourth argument; it is set if output_mask asks for the bias's gradient
    const bool bias = (*(stack->end() - 1)).toBoolList().get(2);
    const int64_t channels = (*(stack->end() - arguments_of_backward)).toTensor().size(1);
    stack->insert(stack->end() - 7, bias ? c10::IValue(std::vector<int64_t>{channels}) : c10::IValue());
  }
  const char *name = backward ? "aten::convolution_backward" : "aten::convolution";
  const c10::OperatorHandle chosen = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  default_kernel(chosen, {}, stack);
}

} // namespace

void counted_fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack) { fall_back(op, stack, false); }

void forced_fallback(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  fall_back(op, stack, true);
}

void set_default_kernel(BoxedKernel *kernel) { default_kernel = kernel; }
bool has_default_kernel() { return default_kernel != &run_unregistered; }

void register_default_kernel(torch::Library &aten, const char *name) {
  aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_default_kernel>());
}

void register_convolution_fallback(torch::Library &aten) {
  for (const char *name : {"convolution_overrideable", "convolution_backward_overrideable"})
    aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&convolution>());
}

void register_fallback() {
  static auto *library =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->fallback(torch::CppFunction::makeFromBoxedFunction<&run_default_kernel>());
}

} // namespace tb::ops
