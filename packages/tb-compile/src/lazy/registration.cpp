// Chooses a kernel of the dispatch key Lazy for each operator.
#include "lazy/registration.h"

#include <torch/csrc/lazy/backend/backend_interface.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>
#include <torch/library.h>

#include <ATen/ops/select_copy.h>
#include <ATen/ops/slice_copy.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lazy/backend.h"
#include "lazy/fallback.h"

namespace at {
// Registers PyTorch's lazy kernels. libtorch exports it, but no header declares it.
TORCH_API void RegisterTorchScriptLazyNativeFunctions();
} // namespace at

namespace tb::compile::lazy {
namespace {

using c10::DispatchKey;
using c10::OperatorHandle;

std::string full_name(const c10::OperatorName &name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::vector<OperatorHandle> aten_operators() {
  std::vector<OperatorHandle> found;
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames())
    if (const auto op = c10::Dispatcher::singleton().findSchema(name); op && name.name.rfind("aten::", 0) == 0)
      found.push_back(*op);
  return found;
}

std::optional<size_t> generator_of(const c10::FunctionSchema &schema) {
  for (size_t i = 0; i < schema.arguments().size(); i++)
    if (schema.arguments()[i].name() == "generator") return i;
  return std::nullopt;
}

// Kernels that are replaced, and that the replacements call.
using Kernels = std::unordered_map<c10::OperatorName, c10::SafeKernelFunction>;
Kernels lazy_kernels, device_kernels;

// PyTorch's lazy kernels pass a call with a generator to a fallback that supports the CPU and CUDA only.
void with_generator(const OperatorHandle &op, torch::jit::Stack *stack) {
  const auto &arguments = op.schema().arguments();
  if (!(*stack)[stack->size() - arguments.size() + *generator_of(op.schema())].isNone()) return run_eagerly(op, stack);
  lazy_kernels.at(op.operator_name()).callBoxed(op, c10::DispatchKeySet(DispatchKey::Lazy), stack);
}

// A generator or a tensor of the device has the device's dispatch key, which precedes that of a lazy tensor in the
// call.
void of_lazy_tensors(const OperatorHandle &op, torch::jit::Stack *stack) {
  for (const c10::IValue &value : torch::jit::last(*stack, op.schema().arguments().size()))
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().key_set().has(DispatchKey::Lazy))
      return op.redispatchBoxed(c10::DispatchKeySet(DispatchKey::Lazy), stack);
  device_kernels.at(op.operator_name()).callBoxed(op, c10::DispatchKeySet(DispatchKey::PrivateUse1), stack);
}

// A composite kernel takes precedence over a fallback, and calls views and variants with out=, which break the graph.
// So an operator without writes gets a kernel that traces it as one node.
bool is_composite_without_writes(const OperatorHandle &op) {
  if (!op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) &&
      !op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional))
    return false;
  const c10::FunctionSchema &schema = op.schema();
  if (schema.returns().empty()) return false;
  for (const c10::Argument &result : schema.returns())
    if (result.alias_info() || *result.type() != *c10::TensorType::get()) return false;
  bool takes_tensors = false;
  for (const c10::Argument &argument : schema.arguments()) {
    if (argument.alias_info() || argument.name() == "device" || argument.name() == "generator") return false;
    takes_tensors = takes_tensors || argument.type()->isSubtypeOf(*c10::TensorType::get()) ||
                    argument.type()->isSubtypeOf(*c10::ListType::ofTensors());
  }
  return takes_tensors;
}

// Drops the dispatcher's warnings about replaced kernels, which are intended here.
class NoWarnings final : public c10::WarningHandler {
public:
  void process(const c10::Warning &) override {}
};

template <auto kernel> torch::CppFunction boxed() { return torch::CppFunction::makeFromBoxedFunction<kernel>(); }

// ---- results that are lists: each part is a node, since the result of a node is a tensor ----------------------------

using at::Tensor;
using c10::SymInt;

std::vector<Tensor> split_with_sizes(const Tensor &self, c10::SymIntArrayRef sizes, int64_t dim) {
  std::vector<Tensor> parts;
  SymInt begin = 0;
  for (const SymInt &size : sizes) {
    parts.push_back(at::slice_copy_symint(self, dim, begin, begin + size));
    begin += size;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor &self, SymInt size, int64_t dim) {
  const SymInt whole = self.sym_size(dim);
  if (size == 0) return {at::slice_copy_symint(self, dim)};
  std::vector<Tensor> parts;
  for (SymInt begin = 0; begin < whole || parts.empty(); begin += size)
    parts.push_back(at::slice_copy_symint(self, dim, begin, std::min(begin + size, whole)));
  return parts;
}

std::vector<Tensor> unbind(const Tensor &self, int64_t dim) {
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < self.size(dim); i++) parts.push_back(at::select_copy(self, dim, i));
  return parts;
}

void register_lists(torch::Library &aten) {
  aten.impl("split_copy.Tensor", TORCH_FN(split));
  aten.impl("split_with_sizes_copy", TORCH_FN(split_with_sizes));
  aten.impl("unbind_copy.int", TORCH_FN(unbind));
  aten.impl("unsafe_split.Tensor", TORCH_FN(split));
  aten.impl("unsafe_split_with_sizes", TORCH_FN(split_with_sizes));
}

void register_lazy_kernels() {
  // The kernels for autograd are left out, because two of them call a fallback that supports the CPU and CUDA only.
  at::RegisterTorchScriptLazyNativeFunctions();
  static auto fallback = MAKE_TORCH_LIBRARY_IMPL(_, Lazy);
  fallback.fallback(boxed<&trace_or_run>());
  static auto aten = MAKE_TORCH_LIBRARY_IMPL(aten, Lazy);
  // PyTorch's kernels of these three call that fallback too.
  aten.impl("nonzero", boxed<&run_eagerly>());
  for (const char *name : {"max_pool3d_with_indices", "max_pool3d_with_indices_backward"})
    aten.impl(name, boxed<&trace_or_run>());
  // PyTorch's kernels of these return wrong results or fail.
  for (const char *name : {"pixel_shuffle", "pixel_unshuffle", "index_select", "masked_fill.Scalar",
                           "masked_fill.Tensor", "std", "std.dim", "std.correction"})
    aten.impl(name, boxed<&trace_or_run>());
  for (const char *name : {"eye", "eye.m", "linspace", "logspace"}) aten.impl(name, boxed<&trace_or_run>());
  register_lists(aten);
  for (const OperatorHandle &op : aten_operators()) {
    const std::string name = full_name(op.operator_name());
    if (op.hasKernelForDispatchKey(DispatchKey::Lazy)) {
      if (!generator_of(op.schema())) continue;
      lazy_kernels.emplace(op.operator_name(), op.getComputedKernelForDispatchKey(DispatchKey::Lazy));
      aten.impl(name.c_str(), boxed<&with_generator>());
    } else if (is_composite_without_writes(op)) {
      aten.impl(name.c_str(), boxed<&trace_or_run>());
    }
  }
}

void register_device_kernels() {
  static auto aten = MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1);
  for (const OperatorHandle &op : aten_operators()) {
    const bool takes_generator = generator_of(op.schema()) && op.hasKernelForDispatchKey(DispatchKey::PrivateUse1);
    // Functionalization calls it instead of copy_().
    if (!takes_generator && op.schema().name() != "aten::copy") continue;
    device_kernels.emplace(op.operator_name(), op.getComputedKernelForDispatchKey(DispatchKey::PrivateUse1));
    aten.impl(full_name(op.operator_name()).c_str(), boxed<&of_lazy_tensors>());
  }
}

// Whether a lazy tensor's call reaches a kernel of its own: composites are traced as what they are composed of, and views
// are made by functionalization.
bool can_be_forced(const OperatorHandle &op) {
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) return false;
  const auto &results = op.schema().returns();
  return std::none_of(results.begin(), results.end(), [](const c10::Argument &result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  });
}

} // namespace

// PyTorch's own switch, LTC_FORCE_FALLBACK, calls a fallback that supports the CPU and CUDA only.
void force_fallback(const std::vector<std::string> &names) {
  static auto &forced = *new std::vector<torch::Library>(); // the GIL guards it
  std::vector<OperatorHandle> found;
  for (const std::string &name : names) {
    const size_t before = found.size();
    for (const OperatorHandle &op : aten_operators())
      if (op.schema().name() == name && can_be_forced(op)) found.push_back(op);
    TORCH_CHECK_VALUE(found.size() > before, "'", name,
                      "' cannot be forced to run eagerly: it is no operator of aten, ",
                      "or is composed of others or makes views. Names look like aten::mul");
  }
  NoWarnings quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  forced.clear();
  if (found.empty()) return;
  torch::Library &aten = forced.emplace_back(torch::Library::IMPL, "aten", DispatchKey::Lazy, __FILE__, __LINE__);
  for (const OperatorHandle &op : found) aten.impl(full_name(op.operator_name()).c_str(), boxed<&run_eagerly>());
}

void register_backend() {
  static bool done = false; // the GIL guards it
  if (done) return;
  TORCH_CHECK(!torch::lazy::hasBackend(),
              "this process has a lazy backend already (torch._lazy.ts_backend?), and PyTorch has room for one: call "
              "tb_compile.lazy.init() instead of its init()");
  {
    NoWarnings quiet;
    const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
    register_lazy_kernels();
    register_device_kernels();
  }
  static auto *executor = new torch::lazy::LazyGraphExecutor;
  torch::lazy::LazyGraphExecutor::Register(executor);
  static const torch::lazy::BackendRegistrar registrar(&backend());
  done = true;
}

} // namespace tb::compile::lazy
