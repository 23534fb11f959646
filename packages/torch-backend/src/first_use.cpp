// first_use.cpp -- makes tb ready for an operator that C++ calls: TorchScript, an exported program, c10d, torch.ops.
//
// Python's argument parser makes tb ready before it calls an operator. These callers do not pass it, and until tb is
// ready its dispatch keys have no kernels. So they have a fallback until then, which is gone when the kernels come.
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "components.h"
#include "registration.h"

namespace tb::backend {
namespace {

// The keys of dense, sparse, nested and quantized tensors, which have fallbacks of tb-ops when tb is ready.
constexpr c10::DispatchKey keys_of_tb[] = {
    c10::DispatchKey::PrivateUse1, c10::DispatchKey::SparsePrivateUse1, c10::DispatchKey::SparseCsrPrivateUse1,
    c10::DispatchKey::NestedTensorPrivateUse1, c10::DispatchKey::QuantizedPrivateUse1};

std::vector<torch::Library> &fallbacks() {
  static auto *held = new std::vector<torch::Library>();
  return *held;
}

void make_ready_and_dispatch_again(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  make_ready();
  TORCH_INTERNAL_ASSERT(fallbacks().empty(), "the preparation of tb itself calls ", op.schema().operator_name());
  op.redispatchBoxed(keys, stack);
}

} // namespace

void register_first_use() {
  // tb-ops' own fallback is there when its preparation failed at a later step: PrivateUse1 has its kernels then.
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(c10::DispatchKey::PrivateUse1)) return;
  for (const c10::DispatchKey key : keys_of_tb) {
    fallbacks().emplace_back(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
    fallbacks().back().fallback(torch::CppFunction::makeFromBoxedFunction<&make_ready_and_dispatch_again>());
  }
}

void unregister_first_use() { fallbacks().clear(); }

} // namespace tb::backend
