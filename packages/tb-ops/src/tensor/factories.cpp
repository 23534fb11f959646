// Factories, storages and resizing. These operators run no kernel and are the same for every driver.
#include "tensor/factories.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/ops/kaiser_window_native.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "runtime/runtime.h"

namespace tb::ops {
namespace {

c10::DeviceIndex device_or_current(std::optional<c10::Device> device) {
  if (device && device->has_index()) return device->index();
  return static_cast<c10::DeviceIndex>(runtime.device.current_device());
}

void check_factory(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == c10::kStrided, "tb tensors are strided; layout ", *layout,
                              " is not offered. Make it on the CPU.");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

// Whether new memory is filled with NaN, or with the largest number, as on the CPU under
// torch.use_deterministic_algorithms.
bool fills_new_memory() {
  const at::Context &context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

at::Tensor filled(at::Tensor made) {
  if (fills_new_memory()) [[unlikely]]
    at::native::fill_empty_deterministic_(made);
  return made;
}

at::Tensor empty_memory_format(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                               std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                               std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> memory_format) {
  check_factory(layout, pin_memory);
  const c10::DeviceIndex index = device_or_current(device);
  if (!memory_format || *memory_format == c10::MemoryFormat::Contiguous)
    return filled(empty(size, {}, c10::dtype_or_default(dtype), index));
  DeviceScope scope(index);
  return filled(at::Tensor(
      at::detail::empty_generic(size, runtime.allocator, key_set, c10::dtype_or_default(dtype), memory_format)));
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  check_factory(layout, pin_memory);
  TORCH_CHECK(size.size() == stride.size(), "dimensionality of sizes (", size.size(),
              ") must match dimensionality of strides (", stride.size(), ")");
  return filled(empty(size, stride, c10::dtype_or_default(dtype), device_or_current(device)));
}

// Returns a tensor of zeros without memory, which forward-mode AD uses.
at::Tensor efficient_zero_tensor(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                                 std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                                 std::optional<bool> pin_memory) {
  check_factory(layout, pin_memory);
  at::native::ZeroTensorAllocator none(c10::Device(device_type, device_or_current(device)));
  return at::Tensor(at::detail::empty_generic(size, &none, key_set | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
                                              c10::dtype_or_default(dtype), std::nullopt));
}

// Computes the window on the CPU and copies it. It is the only window for which PyTorch has a kernel of its own, which
// other devices do not have.
at::Tensor kaiser_window_beta(int64_t length, bool periodic, double beta, std::optional<c10::ScalarType> dtype,
                              std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                              std::optional<bool> pin_memory) {
  check_factory(layout, pin_memory);
  return at::native::kaiser_window(length, periodic, beta, dtype, layout, c10::Device(c10::kCPU), std::nullopt)
      .to(c10::Device(device_type, device_or_current(device)));
}
at::Tensor kaiser_window_periodic(int64_t length, bool periodic, std::optional<c10::ScalarType> dtype,
                                  std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                                  std::optional<bool> pin_memory) {
  return kaiser_window_beta(length, periodic, 12.0, dtype, layout, device, pin_memory);
}
at::Tensor kaiser_window(int64_t length, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                         std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  return kaiser_window_periodic(length, true, dtype, layout, device, pin_memory);
}

// Grows a storage that is too small. torch-backend's hook does it, which PyTorch calls for UntypedStorage.resize_ too.
// The hook keeps the old memory until the queued copy of its bytes is done.
void ensure_storage(c10::TensorImpl *self) {
  const size_t bytes = at::detail::computeStorageNbytes(self->sizes(), self->strides(), self->dtype().itemsize(),
                                                        static_cast<size_t>(self->storage_offset()));
  const c10::Storage &storage = self->unsafe_storage();
  if (self->numel() > 0 && bytes > storage.nbytes())
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(storage, bytes);
}

const at::Tensor &resize_(const at::Tensor &self, c10::IntArrayRef size,
                          std::optional<c10::MemoryFormat> memory_format) {
  c10::TensorImpl *impl = self.unsafeGetTensorImpl();
  const auto bytes_before = static_cast<int64_t>(self.storage().nbytes());
  if (size != self.sizes()) {
    at::detail::check_size_nonnegative(size);
    impl->set_sizes_contiguous(size);
    ensure_storage(impl);
  }
  if (memory_format) {
    TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve, "Unsupported memory format ", *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  if (fills_new_memory()) [[unlikely]]
    at::native::fill_resize_deterministic_(self, bytes_before);
  return self;
}

at::Tensor &set_storage_offset(at::Tensor &self, c10::Storage source, int64_t offset, c10::IntArrayRef size,
                               c10::IntArrayRef stride) {
  TORCH_CHECK(source.device_type() == device_type, "Attempted to set the storage of a tensor on device ", self.device(),
              " to a storage on different device ", source.device());
  at::native::checkSetStorage(self, source, offset, size, stride);
  c10::TensorImpl *impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data() != nullptr)
    impl->set_sizes_and_strides(size, stride);
  else
    impl->set_sizes_contiguous(size);
  ensure_storage(impl);
  return self;
}

at::Tensor &set_storage(at::Tensor &self, c10::Storage source) {
  const int64_t elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_offset(self, std::move(source), 0, elements, {});
}

at::Tensor &set_tensor(at::Tensor &self, const at::Tensor &source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor &set_empty(at::Tensor &self) {
  DeviceScope scope(device_number(self));
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, runtime.allocator->allocate(0), runtime.allocator, true);
  return set_storage_offset(self, std::move(storage), 0, {0}, {});
}

// The copy-on-write copy of PyTorch, made at once. PyTorch's own copies when somebody writes, and so when the launch that
// writes may have its place in the queue already; copies on several streams would have no order.
at::Tensor lazy_clone(const at::Tensor &self) {
  const c10::Storage &storage = self.storage();
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  const auto flat = self.options().dtype(c10::kByte);
  at::Tensor from = at::empty({0}, flat), to = at::empty({bytes}, flat);
  to.copy_(from.set_(storage, 0, {bytes}));
  at::Tensor out = at::empty({0}, self.options());
  out.set_(to.storage(), self.storage_offset(), self.sizes(), self.strides());
  out._set_conj(self.is_conj());
  out._set_neg(self.is_neg());
  return out;
}

void record_stream(at::Tensor &self, c10::Stream stream) {
  c10::impl::VirtualGuardImpl(device_type).recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

// Bypasses PyTorch's own handling of lazily conjugated and negated arguments. It would record the stream of a copy, and
// take a result from the stack that the operator does not return, so that the tensor would never be freed.
void register_record_stream_of_bits() {
  static std::vector<torch::Library> *libraries = new std::vector<torch::Library>();
  for (const c10::DispatchKey key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative})
    libraries->emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__)
        .impl("record_stream", torch::CppFunction::makeFallthrough());
}

} // namespace

void register_factories(torch::Library &aten) {
  aten.impl("empty.memory_format", &empty_memory_format);
  aten.impl("empty_strided", &empty_strided);
  aten.impl("_efficientzerotensor", &efficient_zero_tensor);
  aten.impl("kaiser_window", &kaiser_window);
  aten.impl("kaiser_window.periodic", &kaiser_window_periodic);
  aten.impl("kaiser_window.beta", &kaiser_window_beta);
  aten.impl("resize_", &resize_);
  aten.impl("set_.source_Storage", &set_storage);
  aten.impl("set_.source_Storage_storage_offset", &set_storage_offset);
  aten.impl("set_.source_Tensor", &set_tensor);
  aten.impl("set_", &set_empty);
  aten.impl("_lazy_clone", &lazy_clone);
  aten.impl("record_stream", &record_stream);
  register_record_stream_of_bits();
}

} // namespace tb::ops
