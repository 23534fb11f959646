// The stock of a thread.
#include "worker/worker_tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/conj_physical_ops.h>

namespace tb::ops {

thread_local constinit WorkerTensors *thread_worker_tensors = nullptr;

// On the heap: a module with much memory per thread may not fit beside others that need theirs at a fixed place.
[[gnu::noinline]] WorkerTensors &make_worker_tensors() {
  static thread_local const auto own = std::make_unique<WorkerTensors>();
  return *(thread_worker_tensors = own.get());
}

at::Tensor WorkerTensors::make(c10::ScalarType type) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                       c10::DataPtr(nullptr, c10::kCPU), nullptr, false);
  return at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
}

std::string WorkerTensors::describe() const {
  std::string text;
  for (uint8_t type : touched_)
    for (size_t i = 0; i < shelves_[type].used; i++) {
      const at::Tensor &tensor = *shelves_[type].tensors[i];
      text +=
          (text.empty() ? "" : ", ") + c10::str(c10::getDtypeNames(tensor.scalar_type()).first, " ", tensor.sizes());
    }
  return text;
}

// A kernel may leave its output conjugated by the bit alone (linalg_lu_solve does). The device's tensor would not get that
// bit, so the elements are conjugated instead.
void WorkerTensors::restore_conjugate_bits() {
  for (const auto &[tensor, bit] : complex_) {
    if (tensor->is_conj() == bit) continue;
    tensor->_set_conj(false);
    at::_ops::conj_physical_::call(*tensor);
    tensor->_set_conj(bit);
  }
  complex_.clear();
}

void WorkerTensors::end_scope() {
  restore_conjugate_bits();
  for (uint8_t type : touched_) {
    Shelf &shelf = shelves_[type];
    for (size_t i = 0; i < shelf.used; i++) {
      at::Tensor &tensor = *shelf.tensors[i];
      // A kernel that kept the tensor or its storage owns it now.
      if (tensor.use_count() != 1 || tensor.storage().use_count() != 1) [[unlikely]]
        tensor = make(c10::ScalarType(type));
    }
    shelf.used = 0;
  }
  touched_.clear();
}

at::Tensor &slice(const at::Tensor &tensor, int64_t begin, int64_t count) {
  return flat(static_cast<std::byte *>(tensor.mutable_data_ptr()) + static_cast<size_t>(begin) * tensor.itemsize(),
              tensor.scalar_type(), count);
}

at::Tensor &flat(void *data, c10::ScalarType type, int64_t count) {
  at::Tensor &tensor = worker_tensors().take(type);
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  if (impl->is_wrapped_number()) impl->set_wrapped_number(false);
  set_flat(tensor, data, count);
  return tensor;
}

void set_flat(at::Tensor &flat, void *data, int64_t count) {
  c10::TensorImpl *impl = flat.unsafeGetTensorImpl();
  set_data(flat, data);
  impl->set_sizes_contiguous(count);
  impl->unsafe_storage().unsafeGetStorageImpl()->set_nbytes(static_cast<size_t>(count) * impl->itemsize());
}

} // namespace tb::ops
