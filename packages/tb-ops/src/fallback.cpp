// The boxed fallback. Where the host may touch device memory, the CPU kernel gets aliases over the same storages, so
// views, in-place results and out= resizing keep their identity; only new results are copied, into the device's own
// memory, so that freeing stays stream-ordered and the statistics true. Other drivers: PyTorch's own copying fallback.
#include "fallback.h"

#include "register.h"
#include "runtime.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace tb {
namespace {

struct Account {
  uint64_t calls = 0;
  double seconds = 0;
};
std::mutex ledger_lock;
std::unordered_map<std::string, Account> ledger;
std::unordered_map<std::string, bool> warned;
std::atomic<FallbackMode> mode{FallbackMode::warn};

std::string name_of(const c10::OperatorHandle &op) {
  const c10::OperatorName &name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// Counts one call from construction to destruction, also when it throws.
class Entry {
public:
  explicit Entry(std::string name) : name_(std::move(name)) {}
  ~Entry() {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
    const std::lock_guard guard(ledger_lock);
    Account &account = ledger[name_];
    account.calls++;
    account.seconds += took.count();
  }
  Entry(const Entry &) = delete;
  Entry &operator=(const Entry &) = delete;

private:
  std::string name_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void announce(const std::string &name) {
  if (mode == FallbackMode::error)
    TORCH_CHECK_NOT_IMPLEMENTED(false, name,
                                " has no kernel on this tb device and the CPU fallback is forbidden "
                                "(TB_FALLBACK=error). Move its inputs to the CPU, or allow it: "
                                "torch.tb.set_fallback_mode('warn').");
  if (mode != FallbackMode::warn) return;
  {
    const std::lock_guard guard(ledger_lock);
    if (!warned.emplace(name, true).second) return;
  }
  TORCH_WARN(name, " has no kernel on this tb device and runs on the CPU, waiting for the device first. Counted in "
                   "torch.tb.fallbacks(); TB_FALLBACK=allow silences this, TB_FALLBACK=error forbids it.");
}

// CPU twins of the tensors of one call.
class Twins {
public:
  at::Tensor of(const at::Tensor &tensor) {
    if (!tensor.defined() || tensor.device().type() != device_type) return tensor;
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided, "a tb tensor of layout ", tensor.layout(),
                                " cannot run on the CPU: only strided ones can");
    if (!device_) device_ = tensor.device();
    wait(device_number(tensor));
    for (const Pair &pair : pairs_)
      if (pair.here.is_same(tensor)) return pair.cpu;
    at::Tensor cpu = at::detail::make_tensor<c10::TensorImpl>(
        storage_of(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
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
    TORCH_CHECK_NOT_IMPLEMENTED(cpu.layout() == c10::kStrided, "the result has layout ", cpu.layout(),
                                ", which tb tensors do not have: compute it on the CPU");
    for (const Shared &shared : storages_) {
      if (shared.cpu.unsafeGetStorageImpl() != cpu.storage().unsafeGetStorageImpl()) continue;
      at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(shared.here),
                                                                 key_set, cpu.dtype());
      view.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
      view.unsafeGetTensorImpl()->_set_conj(cpu.is_conj());
      view.unsafeGetTensorImpl()->_set_neg(cpu.is_neg());
      return view;
    }
    wait(device());
    at::Tensor out = empty(cpu.sizes(), cpu.strides(), cpu.scalar_type(), device());
    const size_t bytes = out.storage().nbytes();
    if (bytes > 0 && cpu.numel() > 0) std::memcpy(out.mutable_data_ptr(), cpu.const_data_ptr(), bytes);
    if (cpu.is_conj()) out._set_conj(true);
    if (cpu.is_neg()) out._set_neg(true);
    return out;
  }

private:
  struct Pair {
    at::Tensor here, cpu;
  };
  struct Shared {
    c10::Storage here, cpu;
  };

  void wait(c10::DeviceIndex device) {
    if (std::find(waited_.begin(), waited_.end(), device) != waited_.end()) return;
    synchronize(device);
    waited_.push_back(device);
  }

  c10::Storage storage_of(const c10::Storage &here) {
    for (const Shared &shared : storages_)
      if (shared.here.unsafeGetStorageImpl() == here.unsafeGetStorageImpl()) return shared.cpu;
    c10::Storage cpu(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), here.nbytes(),
                                                           c10::DataPtr(here.mutable_data(), c10::kCPU),
                                                           c10::GetAllocator(c10::kCPU), true));
    storages_.push_back({here, cpu});
    return cpu;
  }

  c10::SmallVector<Pair, 6> pairs_;
  c10::SmallVector<Shared, 6> storages_;
  c10::SmallVector<c10::DeviceIndex, 2> waited_;
  std::optional<c10::Device> device_;
};

// A CPU generator that continues the tb generator's sequence: reproducible by torch.manual_seed, though other numbers.
at::Generator cpu_generator(const std::optional<at::Generator> &given, c10::DeviceIndex device) {
  at::Generator generator =
      given && given->defined() ? *given : at::globalContext().defaultGenerator(c10::Device(device_type, device));
  const std::lock_guard guard(generator.mutex());
  const uint64_t offset = generator.get_offset();
  generator.set_offset(offset + 4); // the smallest step every generator of this kind takes
  return at::detail::createCPUGenerator(generator.current_seed() * 0x9E3779B97F4A7C15ull + offset);
}

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

void run_on_aliases(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  const c10::FunctionSchema &schema = op.schema();
  const size_t given = schema.arguments().size(), first = stack->size() - given;
  Twins twins;
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
      value = cpu_generator(value.isNone() ? std::nullopt : std::optional(value.toGenerator()), twins.device());
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  twins.write_back();
  const size_t returned = schema.returns().size();
  for (size_t i = stack->size() - returned; i < stack->size(); i++)
    (*stack)[i] = convert((*stack)[i], [&](const at::Tensor &tensor) { return twins.back(tensor); });
}

void fallback(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  const std::string name = name_of(op);
  announce(name);
  const Entry entry(name);
  if (runtime.host_accessible)
    run_on_aliases(op, stack);
  else
    at::native::cpu_fallback(op, stack);
}

void waiting(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  run_on_aliases(op, stack);
}

} // namespace

void register_waiting(torch::Library &aten) {
  for (const char *name : {"nonzero", "nonzero.out", "masked_select", "masked_select.out", "_unique2", "unique_dim",
                           "unique_consecutive", "repeat_interleave.Tensor", "bincount"})
    aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&waiting>());
}

std::vector<FallbackEntry> fallbacks() {
  std::vector<FallbackEntry> out;
  {
    const std::lock_guard guard(ledger_lock);
    for (const auto &[name, account] : ledger) out.push_back({name, account.calls, account.seconds});
  }
  std::sort(out.begin(), out.end(), [](const auto &a, const auto &b) { return a.seconds > b.seconds; });
  return out;
}

void reset_fallbacks() {
  const std::lock_guard guard(ledger_lock);
  ledger.clear();
}

void set_fallback_mode(FallbackMode wanted) { mode = wanted; }
FallbackMode fallback_mode() { return mode; }

void register_fallback() {
  static auto *library =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

} // namespace tb
