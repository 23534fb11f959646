// The boxed fallback. Where the host may touch device memory, the CPU kernel gets aliases over the same storages, so
// views, in-place results and out= resizing keep their identity; only new results are copied, into the device's own
// memory, so that freeing stays stream-ordered and the statistics true. Other drivers: PyTorch's own copying fallback.
// What neither can do is refused with the reason: operators that the CPU lacks too, views of copies, tensors that are
// not plain strided ones.
#include "dispatch/fallback.h"

#include "runtime/format.h"
#include "backends/torch_cuda/torch_cuda.h"
#include "dispatch/host_checks.h"
#include "dispatch/layout_cache/layout_caching_kernel.h"
#include "dispatch/fallback_stats.h"
#include "backends/backends.h"
#include "runtime/runtime.h"
#include "dispatch/redispatch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_nested_tensor_from_tensor_list_native.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace tb {

Stretch reserve_cpu_generator(const std::optional<at::Generator> &given, c10::DeviceIndex device) {
  return reserve_counters(given, device, 4); // the smallest step every generator of this kind takes
}

at::Generator cpu_generator(const Stretch &stretch) {
  const Stretch now = stretch.now();
  return at::detail::createCPUGenerator(now.seed * 0x9E3779B97F4A7C15ull + now.offset);
}

void run_on_aliases(const c10::OperatorHandle &op, torch::jit::Stack *stack, Wait wait) {
  run_on_twins(op, stack, host_kernels, wait);
}

namespace {

// A driver whose memory the host may not touch gets copies, and a view of a copy is no view of the tensor.
void run_on_copies(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  for (const c10::Argument &result : op.schema().returns())
    TORCH_CHECK_NOT_IMPLEMENTED(!result.alias_info() || result.alias_info()->isWrite(), name_of(op),
                                " returns a view and has no kernel on this tb device. On the CPU it would be a view of "
                                "a copy, and writing to it would be lost. Use an operator that copies, or register "
                                "one for the device");
  at::native::cpu_fallback(op, stack);
}

enum class Reason { no_kernel, forced };

template <Reason reason> void fallback(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), name_of(op),
                              " has no kernel on this tb device, nor one on the CPU that could run instead: it is for "
                              "other devices or layouts. `python -m tb_ops.coverage` says which");
  const auto last = [&](size_t count) { return c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - count); };
  const auto arguments = last(op.schema().arguments().size());
  FallbackCall call(op, arguments, reason == Reason::forced);
  at::RecordFunction event(at::RecordScope::FUNCTION);
  if (event.isActive()) event.before("tb::fallback " + call.name(), arguments);
  if (runtime.host_accessible)
    run_on_aliases(op, stack);
  else
    run_on_copies(op, stack);
  call.returned(last(op.schema().returns().size()));
}

void waiting(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  run_on_aliases(op, stack);
}

// PyTorch sends the convolutions of devices that it does not know to operators that refuse everything. They go where the
// CPU's go, which knows all kinds of convolution.
constexpr int64_t arguments_of_backward = 10;
void convolution(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  const bool backward = std::ssize(op.schema().arguments()) == arguments_of_backward;
  if (backward) { // bias_sizes come fourth there, wanted where output_mask asks for the bias's gradient
    const bool bias = (*(stack->end() - 1)).toBoolList().get(2);
    const int64_t channels = (*(stack->end() - arguments_of_backward)).toTensor().size(1);
    stack->insert(stack->end() - 7, bias ? c10::IValue(std::vector<int64_t>{channels}) : c10::IValue());
  }
  const char *name = backward ? "aten::convolution_backward" : "aten::convolution";
  const c10::OperatorHandle chosen = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  if (executor())
    execute(chosen, {}, stack);
  else
    counted_fallback(chosen, stack);
}

// Tensors of kinds that PyTorch can give the device's name though nothing here works with them.
struct Kind {
  c10::DispatchKey key;
  const char *name, *remedy;
};
constexpr Kind refused_kinds[] = {
    {c10::DispatchKey::SparsePrivateUse1, "sparse (COO)", "make it dense: tensor.to_dense()"},
    {c10::DispatchKey::SparseCsrPrivateUse1, "sparse (compressed)", "make it dense: tensor.to_dense()"},
    {c10::DispatchKey::QuantizedPrivateUse1, "quantized", "make it dense: tensor.dequantize()"},
    {c10::DispatchKey::NestedTensorPrivateUse1, "nested (strided layout)", "nest it with layout=torch.jagged"},
};

constexpr size_t compressed = 1, nested = 3; // places above

[[noreturn]] void refuse_kind(std::string_view name, size_t place) {
  const Kind &kind = refused_kinds[place];
  C10_THROW_ERROR(NotImplementedError,
                  c10::str(name, ": tb has no ", kind.name, " tensors. Keep the tensor on the CPU, or ", kind.remedy,
                           " before it is moved to tb"));
}

template <size_t i> void refuse(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *) {
  refuse_kind(name_of(op), i);
}

// Those which PyTorch itself makes of tensors of the device, for any device, so that the refusal would come at the first
// use. Their members may be dense ones on tb, or anywhere with the device asked for.
constexpr const char *makers_of_compressed[] = {"sparse_compressed_tensor.comp_plain_value_size",
                                                "sparse_compressed_tensor.comp_plain_value",
                                                "_sparse_compressed_tensor_unsafe",
                                                "_sparse_compressed_tensor_with_dims",
                                                "_sparse_csr_tensor_unsafe",
                                                "_sparse_csc_tensor_unsafe",
                                                "_sparse_bsr_tensor_unsafe",
                                                "_sparse_bsc_tensor_unsafe"};
constexpr char maker_of_nested[] = "_nested_tensor_from_tensor_list";

// empty_like of a tensor on the CPU makes one past all of these. What PyTorch has for any device is then refused here.
constexpr const char *uses_of_compressed[] = {"values", "crow_indices", "ccol_indices", "col_indices", "row_indices",
                                              "_nnz",   "sparse_dim",   "dense_dim",    "_to_copy",    "_to_dense",
                                              "clone",  "copy_",        "zero_",        "abs",         "sum"};

// Of tensors on the CPU that shall become one on tb.
at::Tensor nested_from_list(at::TensorList list, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                            std::optional<at::Device> device, std::optional<bool> pin_memory) {
  if (device && device->type() == device_type) refuse_kind(maker_of_nested, nested);
  return at::native::_nested_tensor_from_tensor_list(list, dtype, layout, device, pin_memory);
}

void register_refused_makers() {
  static std::vector<torch::Library> *libraries = new std::vector<torch::Library>();
  for (const auto key : {c10::DispatchKey::PrivateUse1, refused_kinds[compressed].key}) {
    torch::Library &aten = libraries->emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    for (const char *name : makers_of_compressed)
      aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse<compressed>>());
    aten.impl(maker_of_nested, torch::CppFunction::makeFromBoxedFunction<&refuse<nested>>());
  }
  for (const char *name : uses_of_compressed)
    libraries->back().impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse<compressed>>());
  libraries->emplace_back(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__)
      .impl(maker_of_nested, TORCH_FN(nested_from_list));
}

template <size_t... i> void register_refusals(std::index_sequence<i...>) {
  static std::vector<torch::Library> *libraries = new std::vector<torch::Library>();
  (libraries->emplace_back(torch::Library::IMPL, "_", refused_kinds[i].key, __FILE__, __LINE__)
       .fallback(torch::CppFunction::makeFromBoxedFunction<&refuse<i>>()),
   ...);
}

constexpr const char *size_depends_on_data[] = {
    "nonzero",  "nonzero.out", "masked_select",      "masked_select.out",
    "_unique2", "unique_dim",  "unique_consecutive", "repeat_interleave.Tensor",
    "bincount"};

// ---- forced fallbacks -------------------------------------------------------------------------------------------

struct Force {
  std::unique_ptr<torch::Library> library; // its end brings back the kernel before
  size_t holders = 0;
};
std::mutex forces_lock;
std::map<std::string, Force> forces;

// PyTorch warns that a kernel is replaced: here that is the purpose.
struct Silence : c10::WarningHandler {
  void process(const c10::Warning &) override {}
};

} // namespace

void counted_fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  fallback<Reason::no_kernel>(op, {}, stack);
}

void register_convolution_fallback(torch::Library &aten) {
  for (const char *name : {"convolution_overrideable", "convolution_backward_overrideable"})
    aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&convolution>());
}

void register_waiting(torch::Library &aten) {
  for (const char *name : size_depends_on_data)
    aten.impl(name, executor() ? torch::CppFunction::makeFromBoxedFunction<&execute_waiting>()
                               : torch::CppFunction::makeFromBoxedFunction<&waiting>());
}

std::vector<std::pair<std::string, std::string>> waiting_operators() {
  std::vector<std::pair<std::string, std::string>> out = {
      {"aten::_local_scalar_dense", "the result is a number on the host"},
      {"aten::equal", "the result is a number on the host"},
      {"aten::_copy_from", "between device and host memory, unless that is pinned and non_blocking is given"},
      {"aten::_copy_from_and_resize", "between device and host memory"},
  };
  for (const char *name : size_depends_on_data)
    out.emplace_back(std::string("aten::") + name, "the size of the result depends on the data");
  for (const std::string &name : sized_by_data()) out.emplace_back(name, "the size of the result depends on the data");
  for (const auto &[name, when] : checked_operators())
    if (when.empty()) out.emplace_back(name, "its kernel checks on the host, and raises");
  return out;
}

void force_fallback(const std::string &name, const std::string &overload) {
  const std::optional<c10::OperatorHandle> op =
      c10::Dispatcher::singleton().findSchema({name, overload}); // null also for names without schema
  TORCH_CHECK_VALUE(op, "force_fallback: there is no operator ", name, overload.empty() ? "" : ".", overload);
  const bool composed = op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
                        (!op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) ||
                         op->hasKernelForDispatchKey(c10::DispatchKey::AutogradPrivateUse1)); // by us
  TORCH_CHECK_NOT_IMPLEMENTED(!composed, "force_fallback: ", name_of(*op),
                              " has no kernel that could be passed by: it is composed of other operators. Force those");
  TORCH_CHECK_NOT_IMPLEMENTED(op->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
                              "force_fallback: ", name_of(*op), " has no kernel on the CPU that could run instead");
  for (const c10::Argument &argument : op->schema().arguments())
    TORCH_CHECK_NOT_IMPLEMENTED(argument.type()->kind() != c10::TypeKind::StorageType, "force_fallback: ", name_of(*op),
                                " takes a storage, which has no twin on the CPU");
  const std::lock_guard guard(forces_lock);
  Force &force = forces[name_of(*op)];
  if (force.holders++ > 0) return;
  Silence silence;
  c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  force.library = std::make_unique<torch::Library>(torch::Library::IMPL, name.substr(0, name.find("::")),
                                                   c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  force.library->impl(name_of(*op).c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback<Reason::forced>>());
}

void release_fallback(const std::string &name, const std::string &overload) {
  const std::lock_guard guard(forces_lock);
  const auto found = forces.find(overload.empty() ? name : name + "." + overload);
  if (found != forces.end() && --found->second.holders == 0) forces.erase(found);
}

bool is_forced(const char *name) {
  const std::lock_guard guard(forces_lock);
  return forces.contains(name);
}

std::vector<std::string> forced_fallbacks() {
  const std::lock_guard guard(forces_lock);
  std::vector<std::string> out;
  for (const auto &[name, force] : forces) out.push_back(name);
  return out;
}

void register_fallback() {
  static auto *library =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->fallback(executor() ? torch::CppFunction::makeFromBoxedFunction<&execute>()
                               : torch::CppFunction::makeFromBoxedFunction<&fallback<Reason::no_kernel>>());
  register_refusals(std::make_index_sequence<std::size(refused_kinds)>());
  register_refused_makers();
}

} // namespace tb
