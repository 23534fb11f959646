// first_use.cpp -- makes tb ready for an operator that C++ calls: TorchScript, an exported program, c10d, torch.ops.
//
// Python's argument parser makes tb ready before it calls an operator. These callers do not pass it, and until tb is
// ready PrivateUse1 has no kernels. So it has a fallback until then, which is gone when the kernels come.
#include <memory>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "components.h"
#include "registration.h"

namespace tb::backend {
namespace {

std::unique_ptr<torch::Library> &fallback() {
  static auto *held = new std::unique_ptr<torch::Library>();
  return *held;
}

void make_ready_and_dispatch_again(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  make_ready();
  TORCH_INTERNAL_ASSERT(!fallback(), "the preparation of tb itself calls ", op.schema().operator_name());
  op.redispatchBoxed(keys, stack);
}

} // namespace

void register_first_use() {
  // tb-ops' own fallback is there when its preparation failed at a later step: PrivateUse1 has its kernels then.
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(c10::DispatchKey::PrivateUse1)) return;
  fallback() =
      std::make_unique<torch::Library>(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  fallback()->fallback(torch::CppFunction::makeFromBoxedFunction<&make_ready_and_dispatch_again>());
}

void unregister_first_use() { fallback().reset(); }

} // namespace tb::backend
