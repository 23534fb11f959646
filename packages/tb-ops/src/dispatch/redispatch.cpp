// Runs another torch device's kernels on aliases: tensors of that device over the same storages, so that views,
// in-place results and out= resizing keep their identity. Only new results are copied, into the device's own memory, so
// that their memory is freed in stream order and the allocator's statistics stay true.
//
// If the host may not touch the device's memory, the CPU's kernels get aliases over copies of the storages. Tensors that
// share memory share the copy, strides are kept, and what the kernel wrote is copied back.
#include "dispatch/redispatch.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>

#include "dispatch/device_check.h"
#include "dispatch/tensor_kinds.h"
#include "random/cpu_generator.h"
#include "runtime/capture.h"
#include "runtime/format.h"
#include "runtime/runtime.h"
#include "tb/on_streams.h"
#include "tensor/copy.h"
#include "tensor/output_donation.h"

namespace tb::ops {
namespace {

uint64_t native_stream(c10::DeviceIndex device) {
  uint64_t handle = 0;
  check(runtime.driver->stream_native(runtime.self, current_stream(device), &handle), "stream_native", device);
  return handle;
}

bool takes_generator(const c10::Argument &argument) {
  const c10::Type &type = *argument.type();
  if (type.kind() == c10::TypeKind::GeneratorType) return true;
  const auto optional = type.cast<c10::OptionalType>();
  return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

at::Generator generator(TargetBackend target, const PhiloxState &philox, c10::DeviceIndex device) {
  at::Generator host = cpu_generator(philox);
  if (target.type == c10::kCPU) return host;
  at::Generator made = at::globalContext().getAcceleratorHooksInterface(target.type).getNewGenerator(device);
  made.set_current_seed(host.current_seed());
  return made;
}

class AliasedArguments {
public:
  AliasedArguments(const c10::OperatorHandle &op, TargetBackend target, SyncReason why)
      : op_(op), target_(target), why_(why), copies_(on_host() && !runtime.host_accessible) {}

  at::Tensor of(const at::Tensor &tensor, bool written) {
    if (!tensor.defined() || tensor.is_cpu()) return tensor;
    TORCH_CHECK(tensor.device().type() == device_type, "Expected all tensors to be on the same device, but ",
                name_of(op_), " got tb tensors and one on ", tensor.device(),
                ": move it to tb or to the CPU (a meta tensor has no data to move)");
    if (!device_) device_ = tensor.device();
    if (!is_dense(tensor)) return tensor.to(device_of(tensor.device()));
    use(device_number(tensor));
    for (Pair &pair : pairs_)
      if (pair.here.is_same(tensor)) {
        pair.written |= written;
        return pair.alias;
      }
    at::Tensor alias =
        at::detail::make_tensor<c10::TensorImpl>(storage_of(tensor), c10::DispatchKeySet(target_.key), tensor.dtype());
    c10::TensorImpl *impl = alias.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    impl->_set_conj(tensor.is_conj());
    impl->_set_neg(tensor.is_neg());
    // Kernels of operators on lists count modifications with in-place operators, here on aliases.
    const c10::VariableVersion &version = tensor.unsafeGetTensorImpl()->version_counter();
    if (version.enabled() && !alias.is_inference()) impl->set_version_counter(version);
    pairs_.push_back({tensor, alias, written});
    if (copies_) queue_copy(tensor, bytes_of(alias), bytes_of(tensor), span_bytes(tensor), TB_COPY_DEVICE_TO_HOST);
    return alias;
  }

  // Waits until the copies of the arguments are there.
  void wait_for_copies() {
    if (copies_)
      for (const c10::DeviceIndex device : devices_) synchronize(device, name_of(op_), why_);
  }

  void saw(c10::Device device) {
    if (!device_) device_ = device;
  }
  // Returns the target's device for a tb device that the call asks for.
  c10::Device device_of(c10::Device here) const {
    return on_host() ? c10::Device(c10::kCPU) : c10::Device(target_.type, here.index());
  }
  // Returns all devices of the call, device() first.
  c10::ArrayRef<c10::DeviceIndex> devices() {
    if (devices_.empty()) devices_.push_back(device());
    return devices_;
  }
  c10::DeviceIndex device() const {
    return device_ && device_->has_index() ? device_->index()
                                           : static_cast<c10::DeviceIndex>(runtime.device.current_device());
  }

  // Copies to the arguments what the kernel did to the shapes and storages of their aliases.
  void write_back() {
    for (Shared &shared : storages_) {
      c10::StorageImpl *alias = shared.alias.unsafeGetStorageImpl(), *here = shared.here.unsafeGetStorageImpl();
      if (alias->data() == shared.start) continue;
      std::optional<c10::DataPtr> data = ResultMemory::take(shared.alias);
      if (!data) {
        const c10::DeviceIndex device = here->device().index();
        DeviceScope scope(device);
        data = runtime.allocator->allocate(alias->nbytes());
        if (copies_) // parts of the storage may belong to no argument, and have no copy
          queue_bytes(device, data->get(), here->data(), std::min(here->nbytes(), alias->nbytes()),
                      TB_COPY_DEVICE_TO_DEVICE);
        else
          move(device, data->get(), alias->data(), alias->nbytes());
      }
      here->set_data_ptr_noswap(std::move(*data));
      here->set_nbytes(alias->nbytes());
    }
    for (Pair &pair : pairs_) {
      c10::TensorImpl *alias = pair.alias.unsafeGetTensorImpl(), *here = pair.here.unsafeGetTensorImpl();
      if (alias->sizes() == here->sizes() && alias->strides() == here->strides() &&
          alias->storage_offset() == here->storage_offset())
        continue;
      here->set_sizes_and_strides(alias->sizes(), alias->strides(), alias->storage_offset());
    }
    if (!copies_) return;
    for (const Pair &pair : pairs_)
      if (pair.written) write_values(pair.here, pair.alias);
    wait_for_copies();
  }

  // Returns the tb tensor for a tensor that the kernel returned: an argument itself, a view of one, or a new tensor.
  at::Tensor back(const at::Tensor &alias) {
    if (!alias.defined()) return alias;
    for (const Pair &pair : pairs_)
      if (pair.alias.is_same(alias)) return pair.here;
    if (alias.device().type() != target_.type) return alias;
    if (!is_dense(alias)) {
      TORCH_CHECK_NOT_IMPLEMENTED(
          !alias.is_quantized() && !alias.is_mkldnn(), "the result of ", name_of(op_), " is ",
          alias.is_mkldnn() ? "of layout Mkldnn" : "quantized", ", which tb ",
          "tensors cannot be. Move its inputs to the CPU, and what it gives back to tb once it ", "is dense again");
      return alias.to(c10::Device(device_type, device()));
    }
    for (const Shared &shared : storages_) {
      if (shared.alias.unsafeGetStorageImpl() != alias.storage().unsafeGetStorageImpl()) continue;
      at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(shared.here),
                                                                 shared.keys, alias.dtype());
      view.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
      view.unsafeGetTensorImpl()->_set_conj(alias.is_conj());
      view.unsafeGetTensorImpl()->_set_neg(alias.is_neg());
      return view;
    }
    const c10::DeviceIndex made_on = on_host() ? device() : alias.device().index();
    if (std::optional<c10::DataPtr> data = ResultMemory::take(alias.storage())) {
      at::Tensor out = empty({0}, {1}, alias.scalar_type(), made_on);
      out.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(*data));
      out.storage().unsafeGetStorageImpl()->set_nbytes(alias.storage().nbytes());
      out.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
      if (alias.is_conj()) out._set_conj(true);
      if (alias.is_neg()) out._set_neg(true);
      return out;
    }
    at::Tensor out = empty(alias.sizes(), alias.strides(), alias.scalar_type(), made_on);
    move(made_on, out.mutable_data_ptr(), alias.const_data_ptr(), alias.numel() > 0 ? out.storage().nbytes() : 0);
    if (alias.is_conj()) out._set_conj(true);
    if (alias.is_neg()) out._set_neg(true);
    return out;
  }

  // Device memory that the host may write to at once.
  c10::DataPtr result_memory(size_t bytes) {
    DeviceScope scope(device());
    c10::DataPtr data = runtime.allocator->allocate(bytes);
    // Work that another thread queued on this stream may still use the memory, which that thread then freed.
    check(runtime.driver->stream_synchronize(runtime.self, current_stream(device())), "stream_synchronize", device(),
          Failed::work);
    return data;
  }
  bool on_host() const { return target_.type == c10::kCPU; }
  bool on_copies() const { return copies_; }

private:
  struct Pair {
    at::Tensor here, alias;
    bool written;
  };
  struct Shared {
    c10::Storage here, alias;
    const void *start;        // of the alias before the call
    c10::DispatchKeySet keys; // of the first tensor; views get them, so that autograd's keys agree
  };

  static char *bytes_of(const at::Tensor &tensor) {
    return static_cast<char *>(const_cast<void *>(tensor.storage().data())) +
           tensor.storage_offset() * static_cast<int64_t>(tensor.element_size());
  }

  static void queue_copy(const at::Tensor &here, void *to, const void *from, size_t bytes, int32_t kind) {
    if (bytes > 0) queue_bytes(device_number(here), to, from, bytes, kind);
  }

  // What is between the elements of a tensor with gaps may be in use on another stream, and is not written.
  static void write_values(const at::Tensor &here, const at::Tensor &alias) {
    if (here.is_non_overlapping_and_dense() || at::has_internal_overlap(here) == at::MemOverlap::Yes)
      return queue_copy(here, bytes_of(here), bytes_of(alias), span_bytes(here), TB_COPY_HOST_TO_DEVICE);
    at::Tensor(here).copy_(alias);
  }

  void move(c10::DeviceIndex device, void *to, const void *from, size_t bytes) {
    if (!on_host()) {
      if (bytes == 0) return;
      check(runtime.driver->mem_copy(runtime.self, device, current_stream(device), to, from, bytes,
                                     TB_COPY_DEVICE_TO_DEVICE),
            "mem_copy", device);
      redispatch_copies().results.fetch_add(1, std::memory_order_relaxed);
      redispatch_copies().bytes.fetch_add(bytes, std::memory_order_relaxed);
      return;
    }
    if (copies_ && bytes > 0) queue_bytes(device, to, from, bytes, TB_COPY_HOST_TO_DEVICE);
    synchronize(device, name_of(op_), why_); // as for result_memory
    if (!copies_ && bytes > 0) std::memcpy(to, from, bytes);
  }

  void use(c10::DeviceIndex device) {
    if (std::find(devices_.begin(), devices_.end(), device) != devices_.end()) return;
    if (target_.waits && !copies_) synchronize(device, name_of(op_), why_);
    devices_.push_back(device);
  }

  c10::Storage storage_of(const at::Tensor &tensor) {
    const c10::Storage &here = tensor.storage();
    for (const Shared &shared : storages_)
      if (shared.here.unsafeGetStorageImpl() == here.unsafeGetStorageImpl()) return shared.alias;
    c10::DataPtr data = copies_ ? c10::GetCPUAllocator()->allocate(here.nbytes())
                                : c10::DataPtr(here.mutable_data(), device_of(here.device()));
    c10::Storage alias(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), here.nbytes(),
                                                             std::move(data), c10::GetAllocator(target_.type), true));
    storages_.push_back({here, alias, alias.data(),
                         tensor.key_set().remove(c10::DispatchKey::Conjugate).remove(c10::DispatchKey::Negative)});
    return alias;
  }

  const c10::OperatorHandle &op_;
  const TargetBackend target_;
  const SyncReason why_;
  const bool copies_; // whether the host may not touch the arguments' memory
  c10::SmallVector<Pair, 6> pairs_;
  c10::SmallVector<Shared, 6> storages_;
  c10::SmallVector<c10::DeviceIndex, 2> devices_; // of the tensor arguments
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

void redispatch_aliased(const c10::OperatorHandle &op, torch::jit::Stack *stack, TargetBackend target, SyncReason why) {
  const c10::FunctionSchema &schema = op.schema();
  const size_t given = schema.arguments().size(), first = stack->size() - given;
  check_devices(op, c10::ArrayRef<c10::IValue>(*stack).slice(first));
  AliasedArguments aliased(op, target, why);
  for (size_t i = 0; i < given; i++) {
    c10::IValue &value = (*stack)[first + i];
    if (value.isDevice() && value.toDevice().type() == device_type) {
      aliased.saw(value.toDevice());
      value = aliased.device_of(value.toDevice());
    } else {
      const c10::AliasInfo *alias = schema.arguments()[i].alias_info();
      const bool written = alias && alias->isWrite();
      value = convert(value, [&](const at::Tensor &tensor) { return aliased.of(tensor, written); });
    }
  }
  aliased.wait_for_copies();
  for (size_t i = 0; i < given; i++) {
    c10::IValue &value = (*stack)[first + i];
    if (takes_generator(schema.arguments()[i]) &&
        (value.isNone() || value.toGenerator().device().type() == device_type))
      value = generator(
          target,
          reserve_cpu_generator(value.isNone() ? std::nullopt : std::optional(value.toGenerator()), aliased.device()),
          aliased.device());
  }
  {
    std::optional<OnStreams> streams;
    if (target.type != c10::kCPU) {
      for (const c10::DeviceIndex device : aliased.devices()) {
        if (!any_capture() || !in_capture(current_stream(device))) continue;
        const std::string what = c10::str(name_of(op), " by PyTorch's ", c10::DeviceTypeName(target.type),
                                          " kernel takes memory that a graph would not keep");
        TORCH_CHECK_NOT_IMPLEMENTED(
            !captures_after_interruption(current_stream(device), what), what,
            ". Start the program with TB_CUDA_OPERATORS=own to capture it, or run it outside of "
            "torch.tb.graph");
      }
      streams.emplace(target.type, aliased.devices(), &native_stream);
    }
    std::optional<ResultMemory> results;
    const auto allocate = [&](size_t bytes) { return aliased.result_memory(bytes); };
    if (aliased.on_host() && !aliased.on_copies()) results.emplace(allocate);
    op.redispatchBoxed(c10::DispatchKeySet(target.key), stack);
  }
  aliased.write_back();
  const size_t returned = schema.returns().size();
  for (size_t i = stack->size() - returned; i < stack->size(); i++)
    (*stack)[i] = convert((*stack)[i], [&](const at::Tensor &tensor) { return aliased.back(tensor); });
}

void redispatch_to_cpu(const c10::OperatorHandle &op, torch::jit::Stack *stack, SyncReason why) {
  redispatch_aliased(op, stack, cpu_backend, why);
}

RedispatchCopies &redispatch_copies() {
  static RedispatchCopies copies;
  return copies;
}

} // namespace tb::ops
