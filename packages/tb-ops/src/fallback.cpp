// The boxed fallback. Where the host may touch device memory, the CPU kernel gets aliases over the same storages, so
// views, in-place results and out= resizing keep their identity; only new results are copied, into the device's own
// memory, so that freeing stays stream-ordered and the statistics true. Other drivers: PyTorch's own copying fallback.
// What neither can do is refused with the reason: operators that the CPU lacks too, views of copies, tensors that are
// not plain strided ones.
#include "fallback.h"

#include "describe.h"
#include "learned/learned.h"
#include "ledger.h"
#include "register.h"
#include "runtime.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace tb {
namespace {

// CPU twins of the tensors of one call.
class Twins {
public:
  Twins(const c10::OperatorHandle &op, Wait wait) : op_(op), wait_(wait) {}

  at::Tensor of(const at::Tensor &tensor) {
    if (!tensor.defined() || tensor.is_cpu()) return tensor;
    TORCH_CHECK(tensor.device().type() == device_type, "Expected all tensors to be on the same device, but ",
                name_of(op_), " got tb tensors and one on ", tensor.device(),
                ": move it to tb or to the CPU (a meta tensor has no data to move)");
    TORCH_CHECK_NOT_IMPLEMENTED(is_dense(tensor), name_of(op_), " got a ", kind_of(tensor),
                                " tb tensor, which cannot be handed to the CPU: only dense ones can. ",
                                "Make it dense, or keep it on the CPU");
    if (!device_) device_ = tensor.device();
    wait(device_number(tensor));
    for (const Pair &pair : pairs_)
      if (pair.here.is_same(tensor)) return pair.cpu;
    at::Tensor cpu = at::detail::make_tensor<c10::TensorImpl>(
        storage_of(tensor), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
    c10::TensorImpl *impl = cpu.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    impl->_set_conj(tensor.is_conj());
    impl->_set_neg(tensor.is_neg());
    pairs_.push_back({tensor, cpu});
    return cpu;
  }

  void saw(c10::Device device) {
    if (!device_) device_ = device;
  }
  c10::DeviceIndex device() const {
    return device_ && device_->has_index() ? device_->index()
                                           : static_cast<c10::DeviceIndex>(runtime.device.current_device());
  }

  // Takes over what the CPU kernel did to shapes and storages of its arguments.
  void write_back() {
    for (Shared &shared : storages_) {
      c10::StorageImpl *cpu = shared.cpu.unsafeGetStorageImpl(), *here = shared.here.unsafeGetStorageImpl();
      if (cpu->data() == here->data()) continue;
      DeviceScope scope(here->device().index());
      c10::DataPtr data = runtime.allocator->allocate(cpu->nbytes());
      synchronize(here->device().index(), name_of(op_), wait_); // see back()
      std::memcpy(data.get(), cpu->data(), cpu->nbytes());
      here->set_data_ptr_noswap(std::move(data));
      here->set_nbytes(cpu->nbytes());
    }
    for (Pair &pair : pairs_) {
      c10::TensorImpl *cpu = pair.cpu.unsafeGetTensorImpl(), *here = pair.here.unsafeGetTensorImpl();
      if (cpu->sizes() == here->sizes() && cpu->strides() == here->strides() &&
          cpu->storage_offset() == here->storage_offset())
        continue;
      here->set_sizes_and_strides(cpu->sizes(), cpu->strides(), cpu->storage_offset());
    }
  }

  // The tb tensor for what the CPU kernel returned: an argument itself, a view of one, or a new one.
  at::Tensor back(const at::Tensor &cpu) {
    if (!cpu.defined()) return cpu;
    for (const Pair &pair : pairs_)
      if (pair.cpu.is_same(cpu)) return pair.here;
    if (!cpu.is_cpu()) return cpu;
    TORCH_CHECK_NOT_IMPLEMENTED(is_dense(cpu), "the result of ", name_of(op_), " is ", kind_of(cpu),
                                ", which tb tensors cannot be. Move its inputs to the CPU, and ",
                                "what it gives back to tb once it is dense again");
    for (const Shared &shared : storages_) {
      if (shared.cpu.unsafeGetStorageImpl() != cpu.storage().unsafeGetStorageImpl()) continue;
      at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(shared.here),
                                                                 shared.keys, cpu.dtype());
      view.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
      view.unsafeGetTensorImpl()->_set_conj(cpu.is_conj());
      view.unsafeGetTensorImpl()->_set_neg(cpu.is_neg());
      return view;
    }
    at::Tensor out = empty(cpu.sizes(), cpu.strides(), cpu.scalar_type(), device());
    // What another thread queued on this stream may still use the memory, and then freed it.
    synchronize(device(), name_of(op_), wait_);
    const size_t bytes = out.storage().nbytes();
    if (bytes > 0 && cpu.numel() > 0) std::memcpy(out.mutable_data_ptr(), cpu.const_data_ptr(), bytes);
    if (cpu.is_conj()) out._set_conj(true);
    if (cpu.is_neg()) out._set_neg(true);
    return out;
  }

private:
  static bool is_dense(const at::Tensor &tensor) {
    return tensor.layout() == c10::kStrided && !tensor.is_quantized() && !tensor.is_nested();
  }
  static std::string kind_of(const at::Tensor &tensor) {
    if (tensor.is_nested()) return "nested";
    return tensor.is_quantized() ? "quantized" : c10::str("of layout ", tensor.layout());
  }

  struct Pair {
    at::Tensor here, cpu;
  };
  struct Shared {
    c10::Storage here, cpu;
    c10::DispatchKeySet keys; // for views: autograd's keys are there, or not, as in the tensor viewed
  };

  void wait(c10::DeviceIndex device) {
    if (std::find(waited_.begin(), waited_.end(), device) != waited_.end()) return;
    synchronize(device, name_of(op_), wait_);
    waited_.push_back(device);
  }

  c10::Storage storage_of(const at::Tensor &tensor) {
    const c10::Storage &here = tensor.storage();
    for (const Shared &shared : storages_)
      if (shared.here.unsafeGetStorageImpl() == here.unsafeGetStorageImpl()) return shared.cpu;
    c10::Storage cpu(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), here.nbytes(),
                                                           c10::DataPtr(here.mutable_data(), c10::kCPU),
                                                           c10::GetAllocator(c10::kCPU), true));
    storages_.push_back(
        {here, cpu, tensor.key_set().remove(c10::DispatchKey::Conjugate).remove(c10::DispatchKey::Negative)});
    return cpu;
  }

  const c10::OperatorHandle &op_;
  const Wait wait_;
  c10::SmallVector<Pair, 6> pairs_;
  c10::SmallVector<Shared, 6> storages_;
  c10::SmallVector<c10::DeviceIndex, 2> waited_;
  std::optional<c10::Device> device_;
};

template <class Convert> c10::IValue convert(const c10::IValue &value, Convert tensor) {
  if (value.isTensor()) return tensor(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor &item : value.toTensorVector()) out.push_back(tensor(item));
    return out;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> out;
    for (const std::optional<at::Tensor> &item : value.toOptionalTensorVector())
      out.push_back(item ? std::optional<at::Tensor>(tensor(*item)) : std::nullopt);
    return out;
  }
  return value;
}

} // namespace

Stretch reserve_cpu_generator(const std::optional<at::Generator> &given, c10::DeviceIndex device) {
  return reserve_counters(given, device, 4); // the smallest step every generator of this kind takes
}

at::Generator cpu_generator(const Stretch &stretch) {
  const Stretch now = stretch.now();
  return at::detail::createCPUGenerator(now.seed * 0x9E3779B97F4A7C15ull + now.offset);
}

void run_on_aliases(const c10::OperatorHandle &op, torch::jit::Stack *stack, Wait wait) {
  const c10::FunctionSchema &schema = op.schema();
  const size_t given = schema.arguments().size(), first = stack->size() - given;
  Twins twins(op, wait);
  for (size_t i = 0; i < given; i++) {
    c10::IValue &value = (*stack)[first + i];
    if (value.isDevice() && value.toDevice().type() == device_type) {
      twins.saw(value.toDevice());
      value = c10::Device(c10::kCPU);
    } else {
      value = convert(value, [&](const at::Tensor &tensor) { return twins.of(tensor); });
    }
  }
  for (size_t i = 0; i < given; i++) {
    c10::IValue &value = (*stack)[first + i];
    const bool takes_generator = schema.arguments()[i].type()->str().find("Generator") != std::string::npos;
    if (takes_generator && (value.isNone() || value.toGenerator().device().type() == device_type))
      value = cpu_generator(
          reserve_cpu_generator(value.isNone() ? std::nullopt : std::optional(value.toGenerator()), twins.device()));
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  twins.write_back();
  const size_t returned = schema.returns().size();
  for (size_t i = stack->size() - returned; i < stack->size(); i++)
    (*stack)[i] = convert((*stack)[i], [&](const at::Tensor &tensor) { return twins.back(tensor); });
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
  counted_fallback(c10::Dispatcher::singleton().findSchemaOrThrow(name, ""), stack);
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

template <size_t i> void refuse(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *) {
  constexpr Kind kind = refused_kinds[i];
  TORCH_CHECK_NOT_IMPLEMENTED(false, name_of(op), ": tb has no ", kind.name,
                              " tensors. Keep the tensor on the CPU, or ", kind.remedy, " before it is moved to tb");
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
  for (const char *name : size_depends_on_data) aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&waiting>());
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

std::vector<std::string> forced_fallbacks() {
  const std::lock_guard guard(forces_lock);
  std::vector<std::string> out;
  for (const auto &[name, force] : forces) out.push_back(name);
  return out;
}

void register_fallback() {
  static auto *library =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback<Reason::no_kernel>>());
  register_refusals(std::make_index_sequence<std::size(refused_kinds)>());
}

} // namespace tb
