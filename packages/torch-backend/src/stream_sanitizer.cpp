// stream_sanitizer.cpp -- observes each operator: its tensors are what its stream, or the host, uses.
//
// An operator that PyTorch composes of others is left out, since those are observed themselves. So are views and
// operators that look at sizes only. Worker threads run kernels as operators of the CPU; uses by the host count on threads
// with Python code only, which workers and the threads of process groups are not.
#include <Python.h>

#include "stream_sanitizer.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/record_function.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "components.h"
#include "python_call_site.h"

namespace tb::backend {

std::atomic<const tb_races_api *> race_checker{nullptr};

namespace {

tb_races_api table{};
void (*reporter)() = nullptr;
std::atomic<uint64_t> reported{0};

// ---- operators ------------------------------------------------------------------------------------------------------

struct Argument {
  const char *name;
  bool written;
};

// What is to be observed of an operator.
struct Kind {
  bool observed = false;
  bool reads = true;              // it looks at its inputs' elements
  bool fills = true;              // its results have elements when it is done
  bool promises_wait = false;     // it returns what the device computes
  bool copies = false;            // from or to the host it waits, but for pinned memory with non_blocking=True
  size_t non_blocking = SIZE_MAX; // the place of that argument
  const char *name = "";          // "aten::mul"
  std::vector<Argument> arguments;
};

bool is_composed(const c10::OperatorHandle &op) {
  using Key = c10::DispatchKey;
  if (op.hasKernelForDispatchKey(Key::PrivateUse1) || op.hasKernelForDispatchKey(Key::AutogradPrivateUse1))
    return false;
  return op.hasKernelForDispatchKey(Key::CompositeImplicitAutograd) ||
         op.hasKernelForDispatchKey(Key::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(Key::CompositeExplicitAutogradNonFunctional);
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// Only of ATen: what another library's operator does with streams is its own, and the operators inside are observed.
Kind classify(const c10::OperatorHandle &op) {
  Kind kind;
  const c10::FunctionSchema &schema = op.schema();
  std::string_view name = schema.name();
  constexpr std::string_view aten = "aten::";
  if (!name.starts_with(aten) || is_composed(op) || op.hasTag(at::Tag::inplace_view)) return kind;
  kind.name = schema.name().c_str();
  name.remove_prefix(aten.size());
  if (is_one_of(name, {"resize_", "resize_as_", "set_", "record_stream", "_pin_memory", "is_pinned", "is_same_size",
                       "is_set_to", "_reshape_alias", "_unsafe_view", "lift", "lift_fresh", "_resize_output_",
                       "detach_", "_has_same_storage_numel", "_lazy_clone", "_copy_from",
                       "_copy_from_and_resize"})) // the last two: within copy_
    return kind;
  for (const c10::Argument &result : schema.returns()) {
    const c10::AliasInfo *alias = result.alias_info();
    if (alias && !alias->isWrite()) return kind; // a view
    const c10::TypeKind type = result.type()->kind();
    if (type != c10::TypeKind::TensorType && type != c10::TypeKind::ListType) kind.promises_wait = true;
  }
  kind.observed = true;
  kind.promises_wait |= op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
  kind.copies = is_one_of(name, {"copy_", "_to_copy"});
  const bool empty = name.starts_with("empty") || name.starts_with("_empty") || name.starts_with("new_empty");
  kind.reads = !empty && !name.starts_with("new_") && !name.ends_with("_like");
  kind.fills = !empty;
  for (const c10::Argument &argument : schema.arguments()) {
    if (argument.name() == "non_blocking") kind.non_blocking = kind.arguments.size();
    kind.arguments.push_back({argument.name().c_str(), argument.alias_info() && argument.alias_info()->isWrite()});
  }
  return kind;
}

// Kinds by the address of the schema's name, which lives as long as the operator.
const Kind &kind_of(const at::RecordFunction &function) {
  static auto &mutex = *new std::mutex;
  static auto &kinds = *new std::unordered_map<const char *, Kind>;
  const char *key = function.name();
  std::lock_guard lock(mutex);
  const auto [found, fresh] = kinds.try_emplace(key);
  if (fresh)
    if (const auto name = function.operator_name())
      if (const auto op = c10::Dispatcher::singleton().findSchema(*name))
        if (op->schema().name().c_str() == key) found->second = classify(*op);
  return found->second;
}

// ---- tensors --------------------------------------------------------------------------------------------------------

struct Used {
  at::Tensor tensor;
  const char *name;
  bool written;
};
using AllUsed = c10::SmallVector<Used, 4>;

// Whether the tensor is memory: no fake tensor, no wrapper of a transform, no sparse one.
bool has_memory(const at::Tensor &tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return false;
  const c10::DispatchKeySet keys = tensor.key_set();
  if (keys.has(c10::DispatchKey::Python) || keys.has(c10::DispatchKey::Functionalize)) return false;
  if (tensor.device().type() != device_type && !tensor.device().is_cpu()) return false;
  return tensor.storage().data() != nullptr && tensor.numel() > 0 && tensor.layout() == c10::kStrided;
}

void collect(const c10::IValue &value, const Argument &argument, AllUsed &out) {
  const auto take = [&](const at::Tensor &tensor) {
    if (has_memory(tensor)) out.push_back({tensor, argument.name, argument.written});
  };
  if (value.isTensor()) return take(value.toTensor());
  if (!value.isList()) return;
  for (const c10::IValue &each : value.toListRef())
    if (each.isTensor()) take(each.toTensor());
}

tb_races_memory memory_of(const Used &used) {
  const bool host = used.tensor.device().is_cpu();
  return {static_cast<const std::byte *>(used.tensor.storage().data()) +
              used.tensor.storage_offset() * static_cast<int64_t>(used.tensor.element_size()),
          used.tensor.sizes().data(),
          used.tensor.strides().data(),
          static_cast<uint32_t>(used.tensor.dim()),
          static_cast<uint32_t>(used.tensor.element_size()),
          static_cast<uint32_t>((used.written ? TB_RACES_WRITES : 0) | (host ? TB_RACES_ON_HOST : 0)),
          0,
          used.name};
}

void tell(tb_stream *stream, uint64_t number, const char *work, const c10::SmallVectorImpl<tb_races_memory> &memory) {
  if (!memory.empty())
    table.use(table.layer, stream, number, work, memory.data(), static_cast<uint32_t>(memory.size()));
}

bool runs_python() { return current_call_site().frames[0].code != 0; }

// ---- the observer ---------------------------------------------------------------------------------------------------

struct Observed final : at::ObserverContext {
  const Kind *kind = nullptr;
  int32_t device = -1;
  tb_stream *stream = nullptr;
  uint64_t number = 0;
  tb_races_scope around{};
  c10::SmallVector<const c10::StorageImpl *, 4> storages; // of the inputs
};

// The device whose stream the operator uses, -1 for none.
int32_t device_of(const AllUsed &used, c10::ArrayRef<const c10::IValue> inputs) {
  for (const Used &each : used)
    if (each.tensor.device().type() == device_type) return each.tensor.device().index();
  for (const c10::IValue &input : inputs)
    if (input.isDevice() && input.toDevice().type() == device_type) return resolve(input.toDevice());
  return -1;
}

bool waits_for_copy(const Kind &kind, const AllUsed &used, c10::ArrayRef<const c10::IValue> inputs) {
  if (!kind.copies) return false;
  const bool non_blocking =
      kind.non_blocking < inputs.size() && inputs[kind.non_blocking].isBool() && inputs[kind.non_blocking].toBool();
  for (const Used &each : used)
    if (each.tensor.device().is_cpu()) return !non_blocking || !each.tensor.is_pinned();
  return false;
}

// What the kernel of a copy does to pinned memory, it does on the stream; other operators copy CPU tensors at the call.
void tell_inputs(const Observed &observed, const AllUsed &used) {
  c10::SmallVector<tb_races_memory, 4> on_stream, on_host;
  for (const Used &each : used) {
    const c10::Device device = each.tensor.device();
    if (device.type() == device_type && device.index() != observed.device) {
      // A copy between devices is ordered after and before the current streams of both.
      tb_stream *other = current_stream(device.index());
      const tb_races_memory memory = memory_of(each);
      table.use(table.layer, other, table.work(table.layer, other), observed.kind->name, &memory, 1);
    } else {
      const bool host = device.is_cpu() && !(observed.stream && observed.kind->copies);
      (host ? on_host : on_stream).push_back(memory_of(each));
    }
  }
  tell(observed.stream, observed.number, observed.kind->name, on_stream);
  if (!on_host.empty() && runs_python()) tell(nullptr, 0, observed.kind->name, on_host);
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction &function) {
  const Kind &kind = kind_of(function);
  if (!kind.observed || readiness.load(std::memory_order_relaxed) != Readiness::ready) return nullptr;
  if (c10::impl::dispatch_mode_enabled()) return nullptr; // the mode calls the operator again, or runs nothing
  try {
    const auto inputs = function.inputs();
    AllUsed used;
    for (size_t at = 0; at < std::min(inputs.size(), kind.arguments.size()); ++at)
      collect(inputs[at], kind.arguments[at], used);
    auto observed = std::make_unique<Observed>();
    observed->kind = &kind;
    observed->device = device_of(used, inputs);
    if (observed->device < 0 && used.empty()) return nullptr;
    for (const Used &each : used) observed->storages.push_back(each.tensor.storage().unsafeGetStorageImpl());
    if (observed->device >= 0) {
      observed->stream = current_stream(observed->device);
      observed->number = table.work(table.layer, observed->stream);
      if (!observed->number) return nullptr; // a kernel on a waiting thread
    }
    if (kind.reads) tell_inputs(*observed, used);
    observed->around =
        table.enter(table.layer, observed->stream, kind.promises_wait || waits_for_copy(kind, used, inputs));
    return observed;
  } catch (const std::exception &) { // the operator itself says what is wrong
    return nullptr;
  }
}

void tell_results(const at::RecordFunction &function, Observed &observed) {
  AllUsed results;
  for (const c10::IValue &output : function.outputs()) collect(output, {"the result", true}, results);
  c10::SmallVector<tb_races_memory, 4> written;
  for (const Used &each : results) {
    if (each.tensor.device().type() != device_type) continue;
    const auto *storage = each.tensor.storage().unsafeGetStorageImpl();
    if (std::ranges::find(observed.storages, storage) != observed.storages.end()) continue; // an argument
    if (observed.device != each.tensor.device().index()) continue;                          // a copy's
    written.push_back(memory_of(each));
  }
  tell(observed.stream, observed.number, observed.kind->name, written);
}

void report_new() {
  const uint64_t found = table.found(table.layer);
  if (found == reported.load(std::memory_order_relaxed) || !runs_python()) return;
  if (reported.exchange(found) == found) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  reporter();
  PyErr_Restore(type, value, traceback);
  PyGILState_Release(state);
}

void end(const at::RecordFunction &function, at::ObserverContext *context) {
  auto *observed = static_cast<Observed *>(context);
  if (!observed) return;
  table.leave(table.layer, observed->around);
  if (readiness.load(std::memory_order_relaxed) != Readiness::ready) return;
  try {
    if (observed->stream && observed->kind->fills) tell_results(function, *observed);
  } catch (const std::exception &) {
  }
  report_new();
}

uint32_t place(uintptr_t *frames, uint32_t pairs) {
  uint32_t count = 0;
  for (const PythonCallSite &site : {current_call_site(), current_call_site(PythonCallSite::depth)})
    for (const PythonCallSite::Frame &frame : site.frames) {
      if (!frame.code || count == pairs) return count;
      frames[2 * count] = frame.code;
      frames[2 * count + 1] = frame.instruction;
      ++count;
    }
  return count;
}

} // namespace

bool watch_streams(void (*report)()) {
  if (race_checker.load()) return true;
  const tb_status status =
      components.api->get_extension(components.driver, TB_RACES_EXTENSION, TB_RACES_VERSION, &table, sizeof table);
  if (status != TB_OK) {
    drop_error();
    return false;
  }
  reporter = report;
  table.set_place(table.layer, &place);
  at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
  race_checker.store(&table);
  return true;
}

} // namespace tb::backend
