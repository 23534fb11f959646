// first_use.cpp -- makes tb ready for an operator that C++ calls: TorchScript, an exported program, c10d, torch.ops.
//
// Python's argument parser makes tb ready before it calls an operator. These callers do not pass it, and until tb is
// ready its dispatch keys have no kernels. A first tensor comes from a factory, so the factories have a kernel until then,
// which is gone when the others come. (A fallback for all operators would cost each import 4 ms a key.)
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "components.h"
#include "registration.h"

namespace tb::backend {
namespace {

struct Key {
  c10::DispatchKey key;
  std::initializer_list<const char *> factories;
};
// Those that no other operator implements for all devices. tests/process/test_first_use.py finds the ones that lack.
const Key keys_of_tb[] = {
    {c10::DispatchKey::PrivateUse1,
     {"empty.memory_format", "empty_strided", "tril_indices", "triu_indices", "_efficientzerotensor",
      "_empty_affine_quantized", "_empty_per_channel_affine_quantized"}},
    {c10::DispatchKey::SparsePrivateUse1,
     {"empty.memory_format", "_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors"}},
    {c10::DispatchKey::SparseCsrPrivateUse1, {"empty.memory_format"}},
    {c10::DispatchKey::QuantizedPrivateUse1,
     {"empty.memory_format", "empty_strided", "empty_quantized", "_empty_affine_quantized",
      "_empty_per_channel_affine_quantized"}},
};

std::vector<torch::Library> &libraries() {
  static auto *held = new std::vector<torch::Library>();
  return *held;
}

void make_ready_and_dispatch_again(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  make_ready();
  TORCH_INTERNAL_ASSERT(libraries().empty(), "the preparation of tb itself calls ", op.schema().operator_name());
  op.redispatchBoxed(keys, stack);
}

} // namespace

void register_first_use() {
  // tb-ops' own fallback is there when its preparation failed at a later step: tb has its kernels then.
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(c10::DispatchKey::PrivateUse1)) return;
  for (const auto &[key, factories] : keys_of_tb) {
    torch::Library &aten = libraries().emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    for (const char *name : factories)
      aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&make_ready_and_dispatch_again>());
  }
}

void unregister_first_use() { libraries().clear(); }

} // namespace tb::backend
