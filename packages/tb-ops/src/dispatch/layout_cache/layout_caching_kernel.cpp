// Caches layouts, and queues the calls whose layout is known.
#include "dispatch/layout_cache/layout_caching_kernel.h"

#include <ATen/Context.h>

#include "dispatch/data_dependent.h"
#include "dispatch/host_checks.h"
#include "dispatch/layout_cache/call_key.h"
#include "dispatch/layout_cache/layout_cache.h"
#include "dispatch/layout_cache/queued_call.h"
#include "dispatch/redispatch.h"
#include "runtime/format.h"

namespace tb::ops {
namespace {

using c10::IValue;

class LayoutCachingKernel final : public c10::OperatorKernel {
public:
  explicit LayoutCachingKernel(const c10::OperatorHandle &op)
      : name_(name_of(op)), check_(host_check(op)),
        closure_{sizeof(tb_closure), TB_CLOSURE_ON_WAITER, name_.c_str(),
                 thread_invariance(name_) == ThreadInvariance::float32 ? &Queued::run<ThreadInvariance::float32>
                                                                       : &Queued::run<ThreadInvariance::never>,
                 &Queued::destroy} {
    for (const c10::Argument &argument : op.schema().arguments()) {
      written_.push_back(argument.alias_info() && argument.alias_info()->isWrite());
      random_.push_back(argument.type()->str().find("Generator") != std::string::npos);
    }
  }

  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
    const size_t count = written_.size();
    const auto arguments = c10::ArrayRef<IValue>(*stack).slice(stack->size() - count);
    if (check_ && check_->applies(NamedArguments(op.schema(), arguments))) return run_checked(op, stack);
    const std::optional<CallKey> key = overlapping(arguments) ? std::nullopt : call_key(arguments);
    if (!key) return redispatch_to_cpu(op, stack);
    if (const std::shared_ptr<const CallLayout> layout = layouts_.find(*key))
      return queue(op, *layout, arguments, stack);
    const std::vector<IValue> before = arguments.vec();
    redispatch_to_cpu(op, stack, SyncReason::first_shape);
    if (call_key(before) != key) return; // it resized an argument
    const size_t returned = op.schema().returns().size();
    const auto results = c10::ArrayRef<IValue>(*stack).slice(stack->size() - returned);
    if (std::optional<CallLayout> layout = layout_of(tensors_of(before), results))
      layouts_.remember(*key, std::move(*layout));
  }

private:
  using Queued = Closure<QueuedCall>;

  // Whether the call writes to memory that it reads. PyTorch refuses some such calls, which only the CPU's kernel on the
  // same storages can detect.
  bool overlapping(c10::ArrayRef<IValue> arguments) const {
    if (std::find(written_.begin(), written_.end(), true) == written_.end()) return false;
    c10::SmallVector<std::pair<const c10::StorageImpl *, bool>, 8> seen;
    for (size_t i = 0; i < arguments.size(); i++) {
      for (const at::Tensor &tensor : tensors_of(arguments[i])) {
        if (!tensor.defined() || !tensor.has_storage()) continue;
        const c10::StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
        for (const auto &[other, other_written] : seen)
          if (other == storage && (written_[i] || other_written)) return true;
        seen.emplace_back(storage, written_[i]);
      }
    }
    return false;
  }

  void queue(const c10::OperatorHandle &op, const CallLayout &layout, c10::ArrayRef<IValue> arguments,
             torch::jit::Stack *stack) {
    const std::vector<at::Tensor> given = tensors_of(arguments);
    std::vector<at::Tensor> made;
    std::vector<IValue> results;
    for (size_t i = 0; i < layout.returns.size(); i++) {
      c10::List<at::Tensor> list;
      for (const ResultLayout &result : layout.returns[i]) {
        at::Tensor tensor;
        if (result.kind == ResultLayout::Kind::argument) tensor = given[result.position];
        if (result.kind == ResultLayout::Kind::fresh) made.push_back(tensor = result.make(layout.device));
        list.push_back(std::move(tensor));
      }
      const bool is_list = op.schema().returns()[i].type()->kind() == c10::TypeKind::ListType;
      results.push_back(is_list ? IValue(std::move(list)) : IValue(list.get(0)));
    }
    if (std::find(random_.begin(), random_.end(), true) == random_.end())
      launch(op, layout.device, arguments, made);
    else
      launch(op, layout.device, with_generators(arguments, layout.device), made);
    stack->erase(stack->end() - static_cast<std::ptrdiff_t>(arguments.size()), stack->end());
    for (IValue &result : results) stack->push_back(std::move(result));
  }

  // Returns the arguments with the device's default generator where none is given.
  std::vector<IValue> with_generators(c10::ArrayRef<IValue> arguments, c10::DeviceIndex device) const {
    std::vector<IValue> out = arguments.vec();
    for (size_t i = 0; i < out.size(); i++)
      if (random_[i] && out[i].isNone())
        out[i] = at::globalContext().defaultGenerator(c10::Device(device_type, device));
    return out;
  }

  // The call that gave the layout ran with these dtypes, so there is no dtype to probe.
  void launch(const c10::OperatorHandle &op, c10::DeviceIndex device, c10::ArrayRef<IValue> arguments,
              const std::vector<at::Tensor> &results) {
    enqueue<QueuedCall>(device, closure_, op, arguments, results);
  }

  const std::string name_;
  const std::optional<HostCheck> check_; // set if some calls check; if all do, the operator has another kernel
  const tb_closure closure_;
  std::vector<bool> written_, random_; // whether each argument is written to; whether it is a generator
  LayoutCache layouts_;
};

// ---- which operators --------------------------------------------------------------------------------------------

// Parts of the names of operators that are left out: those for tensors that tb does not have or for memory that it does
// not manage, and tb-amp's own.
constexpr std::string_view others[] = {"sparse",     "spdiags",   "sspaddmm",      "_csr",      "_csc",   "_bsr",
                                       "_bsc",       "nested",    "::quantize_",   "quantized", "mkldnn", "coalesce",
                                       "pin_memory", "from_file", "efficientzero", "_amp_"};

// The layers of nn.LSTM have such a part in their names, but take strided tensors like any other operator.
constexpr std::string_view strided[] = {"aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward"};

// Operators whose results have a size that depends on data, though PyTorch's tags do not say so.
constexpr std::string_view untagged[] = {"aten::_padded_dense_to_jagged_forward"};

bool is_composed(const c10::OperatorHandle &op) {
  for (const auto key : {c10::DispatchKey::CompositeImplicitAutograd, c10::DispatchKey::CompositeExplicitAutograd,
                         c10::DispatchKey::CompositeExplicitAutogradNonFunctional})
    if (op.hasKernelForDispatchKey(key)) return true;
  return false;
}

bool is_tensors(const c10::TypePtr &type) {
  const std::string text = type->str();
  return text == "Tensor" || text == "Tensor[]";
}

bool gives_new_tensors(const c10::FunctionSchema &schema) {
  return std::all_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument &result) {
    return is_tensors(result.type()) && (!result.alias_info() || result.alias_info()->isWrite());
  });
}

bool takes_only_values(const c10::FunctionSchema &schema) {
  return std::none_of(schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument &argument) {
    const std::string type = argument.type()->str();
    return type.find("Storage") != std::string::npos || type.find("Stream") != std::string::npos;
  });
}

bool is_of_others(std::string_view name) {
  if (std::find(std::begin(strided), std::end(strided), name) != std::end(strided)) return false;
  return std::any_of(std::begin(others), std::end(others),
                     [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

bool is_sized_by_data(const c10::OperatorHandle &op) {
  return op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output) ||
         std::find(std::begin(untagged), std::end(untagged), name_of(op)) != std::end(untagged);
}

// Whether the operator has a kernel for the CPU only, so that it would fall back, or fail.
bool has_no_kernel(const c10::OperatorHandle &op) {
  if (op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) return false;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && !is_composed(op);
}

bool is_candidate(const c10::OperatorHandle &op) {
  return op.hasSchema() && has_no_kernel(op) && gives_new_tensors(op.schema()) && takes_only_values(op.schema()) &&
         !op.hasTag(at::Tag::inplace_view) && !is_of_others(name_of(op));
}

bool always_checks(const c10::OperatorHandle &op) {
  const std::optional<HostCheck> check = host_check(op);
  return check && !check->applies;
}

std::vector<std::string> cached, waited;

} // namespace

void register_layout_cached(torch::Library &aten) {
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !is_candidate(*op)) continue;
    const bool depends = is_sized_by_data(*op), checks = always_checks(*op);
    if (!checks) (depends ? waited : cached).push_back(name_of(*op));
    if (depends || checks)
      aten.impl(name_of(*op).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_data_dependent>());
    else
      aten.impl(name_of(*op).c_str(),
                torch::CppFunction::makeFromBoxedFunctor(std::make_unique<LayoutCachingKernel>(*op)));
  }
}

c10::BoxedKernel layout_caching_kernel(const c10::OperatorHandle &op) {
  cached.push_back(name_of(op));
  return c10::BoxedKernel::makeFromFunctor(std::make_unique<LayoutCachingKernel>(op));
}

const std::vector<std::string> &layout_cached_operators() { return cached; }
const std::vector<std::string> &sized_by_data() { return waited; }

} // namespace tb::ops
