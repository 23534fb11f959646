// Runs PyTorch's kernels for sparse and nested tensors, on the device where they call other operators on the dense
// tensors inside, and on the CPU's copies where they read memory themselves.
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "dispatch/device_check.h"
#include "dispatch/fallback_stats.h"
#include "dispatch/tensor_kinds.h"
#include "runtime/format.h"
#include "runtime/runtime.h"

namespace at::native {
DECLARE_DISPATCH(Tensor (*)(const Tensor &, IntArrayRef), flatten_indices_stub) // PyTorch installs no header with it
} // namespace at::native

namespace tb::ops {
namespace {

struct Kind {
  c10::DispatchKey key, cpu;
  c10::ArrayRef<const char *> (*kernels_of_the_cpu)();
};
constexpr Kind kinds[] = {
    {c10::DispatchKey::SparsePrivateUse1, c10::DispatchKey::SparseCPU, &sparse_kernels_of_the_cpu},
    {c10::DispatchKey::SparseCsrPrivateUse1, c10::DispatchKey::SparseCsrCPU, &compressed_kernels_of_the_cpu},
    {c10::DispatchKey::NestedTensorPrivateUse1, c10::DispatchKey::NestedTensorCPU, &nested_kernels_of_the_cpu},
};

// Checks the devices of a call and, as long as it lives, makes the call's device the current one: kernels of sparse and
// nested tensors make tensors on it.
class CallDevice {
public:
  CallDevice(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments) {
    check_devices(op, arguments);
    if (const std::optional<c10::DeviceIndex> device = device_of_call(arguments)) scope_.emplace(*device);
  }

private:
  std::optional<DeviceScope> scope_;
};

c10::ArrayRef<c10::IValue> arguments_of(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
  const size_t count = op.schema().arguments().size();
  return c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count);
}

template <size_t i> void run_generic(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  const CallDevice device(op, arguments_of(op, *stack));
  op.callBoxedForDispatchKey(kinds[i].cpu, *stack);
}

template <size_t i> void refuse(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *) {
  C10_THROW_ERROR(NotImplementedError,
                  c10::str(name_of(op), " has no kernel for tensors of this kind (", c10::toString(kinds[i].key),
                           "), nor has the CPU. Make the tensor dense: tensor.to_dense(), or "
                           "to_padded_tensor() of a nested one"));
}

// The arguments of one call, as copies on the CPU.
class Copies {
public:
  explicit Copies(const c10::OperatorHandle &op) : op_(op) {}

  at::Tensor of(const at::Tensor &tensor) {
    if (!tensor.defined()) return tensor;
    if (tensor.device().type() != device_type) {
      TORCH_CHECK(tensor.is_cpu() && tensor.dim() == 0, "Expected all tensors to be on the same device, but ",
                  name_of(op_), " got tb tensors and one on ", tensor.device(),
                  ": move it to tb, or the others to the CPU");
      return tensor;
    }
    if (!device_) device_ = tensor.device();
    for (const Pair &pair : pairs_)
      if (pair.here.is_same(tensor)) return pair.copy;
    pairs_.push_back({tensor, tensor.to(c10::kCPU)});
    const at::Tensor &copy = pairs_.back().copy;
    if (tensor.requires_grad()) copy.set_requires_grad(true); // some kernels ask, to know what a backward pass needs
    return copy;
  }
  void write_back(const at::Tensor &copy) {
    for (const Pair &pair : pairs_)
      if (pair.copy.is_same(copy)) {
        if (is_dense(copy) && copy.sizes() != pair.here.sizes()) pair.here.resize_(copy.sizes());
        const bool compressed = at::sparse_csr::is_sparse_compressed(copy);
        const at::Tensor moved = compressed ? copy.to(pair.here.device()) : copy;
        if (compressed) pair.here.resize_as_sparse_(moved); // copy_ changes neither their shape nor their number
        pair.here.copy_(moved);
      }
  }
  at::Tensor back(const at::Tensor &result) {
    for (const Pair &pair : pairs_)
      if (pair.copy.is_same(result)) return pair.here;
    return result.defined() && result.device().is_cpu() && device_ ? result.to(*device_) : result;
  }

private:
  struct Pair {
    at::Tensor here, copy;
  };
  const c10::OperatorHandle &op_;
  std::vector<Pair> pairs_;
  std::optional<c10::Device> device_;
};

template <class Convert> c10::IValue convert_tensors(const c10::IValue &value, Convert tensor) {
  if (value.isTensor()) return tensor(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor &item : value.toTensorVector()) out.push_back(tensor(item));
    return out;
  }
  return value;
}

void run_on_cpu_copies(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  const std::vector<c10::Argument> &arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size(), returned = op.schema().returns().size();
  const auto last = [&](size_t count) { return c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - count); };
  const CallDevice device(op, last(arguments.size()));
  FallbackCall call(op, last(arguments.size()), false);
  at::RecordFunction event(at::RecordScope::FUNCTION);
  if (event.isActive()) event.before("tb::fallback " + call.name(), last(arguments.size()));
  Copies copies(op);
  std::vector<at::Tensor> written;
  for (size_t i = 0; i < arguments.size(); i++) {
    c10::IValue &value = (*stack)[first + i];
    value = convert_tensors(value, [&](const at::Tensor &tensor) { return copies.of(tensor); });
    if (value.isTensor() && arguments[i].alias_info() && arguments[i].alias_info()->isWrite())
      written.push_back(value.toTensor());
  }
  op.callBoxed(*stack);
  for (const at::Tensor &copy : written) copies.write_back(copy);
  for (size_t i = stack->size() - returned; i < stack->size(); i++)
    (*stack)[i] = convert_tensors((*stack)[i], [&](const at::Tensor &tensor) { return copies.back(tensor); });
  call.returned(last(returned));
}

void refuse_quantized(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *) {
  C10_THROW_ERROR(NotImplementedError, name_of(op) +
                                           ": tb has no quantized tensors. Keep the tensor on the CPU, or make "
                                           "it dense: tensor.dequantize() before it is moved to tb");
}

torch::Library &library(const char *domain, c10::DispatchKey key) {
  static auto *libraries = new std::vector<std::unique_ptr<torch::Library>>();
  libraries->push_back(std::make_unique<torch::Library>(torch::Library::IMPL, domain, key, __FILE__, __LINE__));
  return *libraries->back();
}

// Each operator with a kernel for such tensors of the CPU gets one here: PyTorch may have one for all kinds of tensors
// besides, which would come before the fallback and refuse.
template <size_t i> void register_kind() {
  library("_", kinds[i].key).fallback(torch::CppFunction::makeFromBoxedFunction<&refuse<i>>());
  torch::Library &aten = library("aten", kinds[i].key);
  const c10::ArrayRef<const char *> copied = kinds[i].kernels_of_the_cpu();
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
    const std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || name.name.rfind("aten::", 0) != 0 || !op->hasKernelForDispatchKey(kinds[i].cpu)) continue;
    const std::string text = name_of(*op).substr(std::string_view("aten::").size());
    const bool reads_memory = std::find(copied.begin(), copied.end(), std::string_view(text)) != copied.end();
    aten.impl(text.c_str(), reads_memory ? torch::CppFunction::makeFromBoxedFunction<&run_on_cpu_copies>()
                                         : torch::CppFunction::makeFromBoxedFunction<&run_generic<i>>());
  }
}

// Numbers the elements of a sparse tensor by their indices, for the check that a tensor is coalesced.
at::Tensor flatten_indices(const at::Tensor &indices, c10::IntArrayRef size) {
  at::Tensor flat = indices.select(0, 0);
  for (int64_t dim = 1; dim < indices.size(0); dim++)
    flat = flat.mul(size[static_cast<size_t>(dim)]).add(indices.select(0, dim));
  return flat;
}

template <size_t... i> void register_kinds(std::index_sequence<i...>) { (register_kind<i>(), ...); }

} // namespace

void register_tensor_kinds() {
  at::native::flatten_indices_stub.set_privateuse1_dispatch_ptr(&flatten_indices);
  register_kinds(std::make_index_sequence<std::size(kinds)>());
  library("_", c10::DispatchKey::QuantizedPrivateUse1)
      .fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}

} // namespace tb::ops
