// Chooses entries, and runs them.
#include "backends/vendor/kernel.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "backends/vendor/call.h"
#include "dispatch/fallback.h"
#include "dispatch/layout_cache/call_key.h"
#include "dispatch/layout_cache/result_layout.h"
#include "launch/launch_blocking.h"
#include "runtime/capture.h"
#include "runtime/format.h"
#include "runtime/runtime.h"
#include "runtime/synchronize.h"

namespace tb::ops::vendor {
namespace {

using at::Tensor;
using c10::IValue;

// What was found for a call.
struct Choice {
  Choice() = default;
  Choice(const Choice &) = delete;
  Choice &operator=(const Choice &) = delete;
  ~Choice();

  Entry *entry = nullptr;    // NULL: the earlier kernel runs
  bool nothing = false;      // the outputs have no elements: no kernel runs
  std::vector<Count *> left; // for each entry that was asked in vain
  c10::DeviceIndex device = -1;
  std::vector<ResultLayout> outputs;
  struct Prepared {
    size_t argument;
    c10::ScalarType type; // to which the tensor is converted; it becomes dense
  };
  std::vector<Prepared> prepared;
  uint64_t workspace = 0;
  void *plan = nullptr;
};

// The choices of one kernel. When it is full the oldest are dropped.
class Choices {
public:
  std::shared_ptr<const Choice> find(const CallKey &key);
  void keep(const CallKey &key, std::shared_ptr<const Choice> choice);

private:
  static constexpr size_t most = 4096;
  std::mutex mutex_;
  std::unordered_map<CallKey, std::shared_ptr<const Choice>, CallKeyHash> choices_;
  std::deque<const CallKey *> order_;
};

class VendorKernel final : public c10::OperatorKernel {
public:
  // `functional` is the form of the operator that returns new tensors.
  VendorKernel(const c10::OperatorHandle &op, Form form, const c10::OperatorHandle &functional, size_t outputs,
               std::vector<Entry *> entries);
  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);

private:
  using Arguments = c10::ArrayRef<c10::IValue>;
  void run_earlier(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) const;
  // Why the entry of a choice cannot run this call, which depends on addresses or on the stream; NULL if it can.
  const char *obstacle(const Choice &choice, Arguments arguments) const;
  std::shared_ptr<const Choice> choose(Arguments arguments) const;
  // Returns why the entry does not take the call; empty if it takes it, and then the choice is complete.
  std::string ask(Entry &entry, std::vector<c10::IValue> inputs, const std::vector<at::Tensor> &outputs,
                  Choice &choice) const;
  void run(const c10::OperatorHandle &op, const Choice &choice, torch::jit::Stack *stack) const;
  void compute(const c10::OperatorHandle &op, const Choice &choice, Arguments given,
               const std::vector<at::Tensor> &outputs) const;
  Arguments inputs(Arguments arguments) const { return arguments.slice(0, functional_.schema().arguments().size()); }
  // The tensors that a call in place or with out= writes to.
  std::vector<at::Tensor> written(Arguments arguments) const;

  const Form form_;
  const c10::OperatorHandle functional_;
  const size_t outputs_;
  const std::vector<Entry *> entries_;
  const std::optional<c10::SafeKernelFunction> earlier_;
  const bool delegates_; // the earlier kernel is PyTorch's own, which calls the form with out=; that one counts
  Choices choices_;
};

const char *name_of_layout(uint32_t layout) {
  switch (layout) {
  case TB_LAYOUT_DENSE:
    return "dense";
  case TB_LAYOUT_CHANNELS_LAST:
    return "channels last";
  case TB_LAYOUT_BROADCAST:
    return "broadcast";
  default:
    return "strided";
  }
}

Tensor meta_like(const Tensor &tensor) {
  return at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

// Arguments with meta tensors in place of those of the device.
std::vector<IValue> on_meta(c10::ArrayRef<IValue> arguments) {
  std::vector<IValue> out = arguments.vec();
  for (IValue &value : out) {
    if (value.isTensor() && value.toTensor().defined() && !value.toTensor().is_cpu())
      value = meta_like(value.toTensor());
    if (!value.isTensorList()) continue;
    c10::List<Tensor> list;
    for (const Tensor &tensor : value.toTensorVector())
      list.push_back(tensor.defined() && !tensor.is_cpu() ? meta_like(tensor) : tensor);
    value = std::move(list);
  }
  return out;
}

// Whether entries may get the tensor. A number is a tensor of the host without dimensions.
bool is_plain(const Tensor &tensor, c10::DeviceIndex &device) {
  if (!tensor.defined()) return true;
  if (tensor.is_cpu()) return tensor.dim() == 0;
  if (!tensor.is_privateuseone() || tensor.is_conj() || tensor.is_neg() || !dtype_of(tensor.scalar_type()))
    return false;
  if (device < 0) device = tensor.device().index();
  return tensor.device().index() == device;
}

// The dtype to which PyTorch promotes the tensors that have dimensions, or all if none has.
c10::ScalarType common_dtype(const std::vector<IValue> &arguments) {
  std::optional<c10::ScalarType> with_dimensions, all;
  for (const Tensor &tensor : tensors_of(arguments)) {
    if (!tensor.defined() || tensor.is_cpu()) continue;
    std::optional<c10::ScalarType> &type = tensor.dim() ? with_dimensions : all;
    type = type ? c10::promoteTypes(*type, tensor.scalar_type()) : tensor.scalar_type();
  }
  return with_dimensions ? *with_dimensions : all.value_or(c10::kFloat);
}

Choice::~Choice() {
  if (plan && entry->kernel.forget) entry->kernel.forget(entry->self, plan);
}

std::shared_ptr<const Choice> Choices::find(const CallKey &key) {
  const std::lock_guard guard(mutex_);
  const auto found = choices_.find(key);
  return found == choices_.end() ? nullptr : found->second;
}

void Choices::keep(const CallKey &key, std::shared_ptr<const Choice> choice) {
  std::shared_ptr<const Choice> dropped; // its plan is forgotten without the lock
  const std::lock_guard guard(mutex_);
  const auto [place, added] = choices_.emplace(key, std::move(choice));
  if (!added) return; // another thread was faster
  order_.push_back(&place->first);
  if (order_.size() <= most) return;
  const auto oldest = choices_.find(*order_.front());
  order_.pop_front();
  dropped = std::move(oldest->second);
  choices_.erase(oldest);
}

VendorKernel::VendorKernel(const c10::OperatorHandle &op, Form form, const c10::OperatorHandle &functional,
                           size_t outputs, std::vector<Entry *> entries)
    : form_(form), functional_(functional), outputs_(outputs), entries_(std::move(entries)),
      earlier_(op.hasComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1)
                   ? std::optional(op.getComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1))
                   : std::nullopt),
      delegates_(form != Form::out && !op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) &&
                 op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional)) {}

void VendorKernel::operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  const Arguments arguments = Arguments(*stack).slice(stack->size() - op.schema().arguments().size());
  const std::optional<CallKey> key = call_key(arguments);
  if (!key) return run_earlier(op, keys, stack);
  std::shared_ptr<const Choice> choice = choices_.find(*key);
  if (!choice) choices_.keep(*key, choice = choose(arguments));
  if (!delegates_)
    for (Count *left : choice->left) left->fetch_add(1, std::memory_order_relaxed);
  if (choice->nothing) return run(op, *choice, stack);
  if (!choice->entry) return run_earlier(op, keys, stack);
  if (const char *reason = obstacle(*choice, arguments)) {
    if (!delegates_) choice->entry->left(reason)++;
    return run_earlier(op, keys, stack);
  }
  run(op, *choice, stack);
}

void VendorKernel::run_earlier(const c10::OperatorHandle &op, c10::DispatchKeySet keys,
                               torch::jit::Stack *stack) const {
  if (earlier_) return earlier_->callBoxed(op, keys, stack);
  counted_fallback(op, stack);
}

std::vector<Tensor> VendorKernel::written(Arguments arguments) const {
  if (form_ == Form::in_place) return {arguments[0].toTensor()};
  return tensors_of(arguments.slice(functional_.schema().arguments().size()));
}

const char *VendorKernel::obstacle(const Choice &choice, Arguments arguments) const {
  if (!(choice.entry->kernel.flags & TB_KERNEL_CAPTURABLE) && any_capture() &&
      in_capture(current_stream(choice.device)))
    return "the stream captures, and the entry does not say that it can be captured";
  if (form_ == Form::functional) return nullptr;
  const std::vector<Tensor> given = tensors_of(inputs(arguments)), outputs = written(arguments);
  for (size_t i = 0; i < outputs.size(); i++)
    for (size_t j = 0; j < given.size(); j++) {
      const bool whole = i == 0 && j == 0 && given[j].is_same(outputs[i]); // in place
      if (!whole && given[j].defined() && given[j].is_privateuseone() &&
          given[j].storage().is_alias_of(outputs[i].storage()))
        return "an output is in the memory of an argument";
    }
  return nullptr;
}

std::shared_ptr<const Choice> VendorKernel::choose(Arguments arguments) const {
  auto choice = std::make_shared<Choice>();
  const std::vector<Tensor> tensors = tensors_of(arguments);
  if (!std::all_of(tensors.begin(), tensors.end(), [&](const Tensor &t) { return is_plain(t, choice->device); }) ||
      choice->device < 0)
    return choice;
  const std::vector<IValue> inputs = on_meta(this->inputs(arguments));
  std::vector<Tensor> outputs;
  try {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const at::DisableRecordFunctionGuard no_record; // in profiles it would be a second call
    torch::jit::Stack stack = inputs;
    functional_.callBoxed(&stack);
    for (const IValue &result : stack) {
      if (!result.isTensor() || !result.toTensor().defined()) return choice;
      outputs.push_back(result.toTensor());
    }
  } catch (const std::exception &) { // meta functions in Python throw another type than c10::Error
    return choice;                   // the earlier kernel raises what is wrong, or needs no meta function
  }
  if (outputs.size() != outputs_) return choice;
  if (form_ == Form::functional) {
    for (const Tensor &output : outputs)
      choice->outputs.push_back({.kind = ResultLayout::Kind::fresh,
                                 .type = output.scalar_type(),
                                 .sizes = c10::DimVector(output.sizes()),
                                 .strides = c10::DimVector(output.strides())});
  } else { // resizing and casting are left to the earlier kernel
    const std::vector<Tensor> given = written(arguments);
    for (size_t i = 0; i < outputs.size(); i++) {
      if (given[i].sizes() != outputs[i].sizes() || given[i].scalar_type() != outputs[i].scalar_type() ||
          at::has_internal_overlap(given[i]) != at::MemOverlap::No)
        return choice;
      outputs[i] = meta_like(given[i]);
    }
  }
  const auto is_empty = [](const Tensor &output) { return output.numel() == 0; };
  choice->nothing = std::all_of(outputs.begin(), outputs.end(), is_empty);
  if (std::any_of(outputs.begin(), outputs.end(), is_empty)) return choice;
  for (Entry *entry : entries_) {
    const std::string reason = ask(*entry, inputs, outputs, *choice);
    if (reason.empty()) break;
    choice->left.push_back(&entry->left(reason));
  }
  return choice;
}

std::string VendorKernel::ask(Entry &entry, std::vector<IValue> inputs, const std::vector<Tensor> &outputs,
                              Choice &choice) const {
  const tb_kernel &kernel = entry.kernel;
  const auto takes_dtype = [&](c10::ScalarType type) { return (kernel.dtypes & TB_DTYPE_BIT(*dtype_of(type))) != 0; };
  const auto takes_layout = [&](const Tensor &tensor) { return (kernel.layouts & layout_of(tensor)) != 0; };
  const auto refusal = [&](const Tensor &tensor) -> std::string {
    if (!dtype_of(tensor.scalar_type()) || !takes_dtype(tensor.scalar_type()))
      return c10::str("dtype ", at::toString(tensor.scalar_type()));
    if (!takes_layout(tensor)) return c10::str("layout ", name_of_layout(layout_of(tensor)));
    if (kernel.max_dims > 0 && tensor.dim() > kernel.max_dims) return c10::str(tensor.dim(), " dimensions");
    return "";
  };
  if (static_cast<uint64_t>(outputs[0].numel()) < kernel.min_elements)
    return c10::str("fewer than ", kernel.min_elements, " elements");
  for (const Tensor &output : outputs)
    if (const std::string reason = refusal(output); !reason.empty()) return "output: " + reason;
  const c10::ScalarType common = common_dtype(inputs);
  std::vector<Choice::Prepared> prepared;
  for (size_t i = 0; i < inputs.size(); i++) {
    if (inputs[i].isTensor() && inputs[i].toTensor().defined() && !inputs[i].toTensor().is_cpu()) {
      Tensor tensor = inputs[i].toTensor();
      const bool converts = (kernel.flags & TB_KERNEL_CONVERT) && !takes_dtype(tensor.scalar_type()) &&
                            dtype_of(common) && takes_dtype(common);
      const bool compacts = (kernel.flags & TB_KERNEL_MAKE_DENSE) && (kernel.layouts & TB_LAYOUT_DENSE);
      if (converts) tensor = tensor.to(common);
      if (compacts && !takes_layout(tensor)) tensor = tensor.contiguous();
      if (!tensor.is_same(inputs[i].toTensor())) {
        prepared.push_back({i, tensor.scalar_type()});
        inputs[i] = tensor = compacts ? tensor.contiguous() : tensor;
      }
    }
    for (const Tensor &tensor : tensors_of(inputs[i]))
      if (tensor.defined() && !tensor.is_cpu())
        if (const std::string reason = refusal(tensor); !reason.empty())
          return functional_.schema().arguments()[i].name() + ": " + reason;
  }
  CallDescription description;
  if (!description.add(functional_.schema(), inputs)) return "an argument of a type that tb/kernels.h lacks";
  for (const Tensor &output : outputs) description.add_output(output);
  uint64_t workspace = 0;
  void *plan = nullptr;
  if (kernel.plan) {
    const tb_kernel_call call = description.call(choice.device, true);
    const Calling calling(kernel.name, choice.device);
    take_error_text(); // an older one
    const tb_status status = kernel.plan(entry.self, &call, &workspace, &plan);
    if (status == TB_UNSUPPORTED) {
      const std::string text = take_error_text();
      return "its plan: " + (text.empty() ? "unsupported" : text);
    }
    check(status, kernel.name, choice.device);
  }
  choice.entry = &entry;
  choice.prepared = std::move(prepared);
  choice.workspace = workspace;
  choice.plan = plan;
  return "";
}

void VendorKernel::run(const c10::OperatorHandle &op, const Choice &choice, torch::jit::Stack *stack) const {
  const size_t count = op.schema().arguments().size();
  const Arguments arguments = Arguments(*stack).slice(stack->size() - count);
  const DeviceScope scope(choice.device);
  std::vector<Tensor> outputs;
  if (form_ == Form::functional)
    for (const ResultLayout &layout : choice.outputs) outputs.push_back(layout.make(choice.device));
  else
    outputs = written(arguments);
  if (!choice.nothing) compute(op, choice, inputs(arguments), outputs);
  stack->erase(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  for (size_t i = 0; i < op.schema().returns().size(); i++) stack->emplace_back(outputs[i]);
}

void VendorKernel::compute(const c10::OperatorHandle &op, const Choice &choice, Arguments given,
                           const std::vector<Tensor> &outputs) const {
  const tb_kernel &kernel = choice.entry->kernel;
  std::vector<IValue> changed;
  if (!choice.prepared.empty()) {
    changed = given.vec();
    for (const Choice::Prepared &one : choice.prepared)
      changed[one.argument] = changed[one.argument].toTensor().to(one.type).contiguous();
    given = changed;
  }
  CallDescription description;
  description.add(functional_.schema(), given);
  for (const Tensor &output : outputs) description.add_output(output);
  tb_kernel_call call = description.call(choice.device, false);
  call.stream = current_stream(choice.device);
  // The memory is freed when this function returns, in the order of the stream.
  c10::DataPtr workspace;
  if (choice.workspace) workspace = runtime.allocator->allocate(choice.workspace);
  call.workspace = workspace.get();
  call.workspace_size = choice.workspace;
  call.plan = choice.plan;
  const Calling calling(kernel.name, choice.device);
  check(kernel.run(choice.entry->self, &call), kernel.name, choice.device, Failed::work);
  choice.entry->calls.fetch_add(1, std::memory_order_relaxed);
  if (launch_blocking()) synchronize(choice.device, name_of(op));
}

} // namespace

torch::CppFunction vendor_kernel(const c10::OperatorHandle &op, Form form, const c10::OperatorHandle &functional,
                                 size_t outputs, std::vector<Entry *> entries) {
  return torch::CppFunction::makeFromBoxedFunctor(
      std::make_unique<VendorKernel>(op, form, functional, outputs, std::move(entries)));
}

} // namespace tb::ops::vendor
