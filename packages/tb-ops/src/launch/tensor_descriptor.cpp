// Makes descriptors, and CPU tensors of them.
#include "launch/tensor_descriptor.h"

#include <ATen/ops/clone.h>

#include <algorithm>
#include <cstring>

#include "intraop/thread_policy.h"
#include "worker/worker_tensors.h"

namespace tb::ops {
namespace {

// Bytes from the first element to the end of the last one.
size_t span(const int64_t *sizes, const int64_t *strides, uint32_t dimensions, size_t item) {
  int64_t last = 0;
  for (uint32_t i = 0; i < dimensions; i++) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return static_cast<size_t>(last + 1) * item;
}

} // namespace

TensorDescriptor::TensorDescriptor(const at::Tensor &tensor, HostTensor host_tensor) {
  if (!tensor.defined()) return;
  const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  type_ = c10::typeMetaToScalarType(impl->dtype());
  wrapped_ = impl->is_wrapped_number();
  conjugate_ = impl->is_conj();
  negative_ = impl->is_neg();
  const c10::IntArrayRef sizes = impl->sizes(), strides = impl->strides();
  const c10::Storage &storage = impl->unsafe_storage();
  if (impl->numel() == 0 || impl->device_type() == c10::DeviceType::CPU || sizes.size() > inline_dimensions ||
      !storage) {
    capture_unusual(tensor, host_tensor);
    return;
  }
  // As mutable_data() of the tensor does, which asks more than once whether there is a storage.
  data_ =
      static_cast<std::byte *>(storage.mutable_data()) + static_cast<size_t>(impl->storage_offset()) * impl->itemsize();
  const size_t count = sizes.size();
  dimensions_ = static_cast<uint32_t>(count);
  for (size_t i = 0; i < count; i++) { // a call of memcpy would take longer
    inline_[i] = sizes[i];
    inline_[count + i] = strides[i];
  }
  launch_notes.add(type_, false);
}

// CPU tensors, empty ones and those of many dimensions are rare. This function is not inlined, so that the usual case needs
// fewer registers.
void TensorDescriptor::capture_unusual(const at::Tensor &tensor, HostTensor host_tensor) {
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  launch_notes.add(type_, impl->numel() == 0);
  if (impl->device_type() == c10::DeviceType::CPU) {
    if (host_tensor == HostTensor::copy && impl->numel() == 1 && impl->itemsize() <= sizeof value_ &&
        impl->dim() == 0) {
      by_value_ = true;
      std::memcpy(value_, impl->data(), impl->itemsize());
      return;
    }
    // Shared: another TensorImpl over the same storage, since one that Python knows must not die on the worker.
    if (host_tensor == HostTensor::copy)
      host_ = tensor.clone().unsafeReleaseIntrusivePtr();
    else
      host_ = impl->shallow_copy_and_detach(c10::VariableVersion(0), false);
    impl = host_.get();
  }
  data_ = impl->mutable_data();
  const c10::IntArrayRef sizes = impl->sizes(), strides = impl->strides();
  int64_t *to = inline_;
  if (sizes.size() > inline_dimensions) to = heap_ = new int64_t[2 * sizes.size()];
  dimensions_ = static_cast<uint32_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), to);
  std::copy(strides.begin(), strides.end(), to + sizes.size());
}

TensorDescriptor::TensorDescriptor(TensorDescriptor &&other) noexcept
    : data_(other.data_), host_(std::move(other.host_)), dimensions_(other.dimensions_), type_(other.type_),
      by_value_(other.by_value_), wrapped_(other.wrapped_), conjugate_(other.conjugate_), negative_(other.negative_) {
  std::memcpy(inline_, other.inline_, sizeof inline_);
  other.dimensions_ = 0; // the heap array, if any, is ours
}

TensorDescriptor::~TensorDescriptor() {
  if (dimensions_ > inline_dimensions) delete[] heap_;
}

at::Tensor &TensorDescriptor::writable() {
  static thread_local at::Tensor undefined;
  if (type_ == c10::ScalarType::Undefined) return undefined;
  at::Tensor &tensor = worker_tensors().take(type_);
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  if (impl->is_wrapped_number()) impl->set_wrapped_number(false); // before the shape changes
  const int64_t *lengths = sizes(), *strides = lengths + dimensions_;
  c10::StorageImpl *storage = impl->unsafe_storage().unsafeGetStorageImpl();
  set_data(tensor, by_value_ ? value_ : data_);
  // Stock's linalg_vector_norm reads sizes[0] of a scalar: it finds zero there, as in a tensor that never had a size.
  if (dimensions_ == 0 && impl->dim() != 0) impl->set_sizes_contiguous(c10::IntArrayRef{int64_t{0}});
  impl->set_sizes_and_strides({lengths, dimensions_}, {strides, dimensions_}, 0);
  storage->set_nbytes(span(lengths, strides, dimensions_, impl->itemsize()));
  if (!by_value_) {
    if (const bool integral = c10::isIntegralType(type_, true); !integral) {
      if (type_ != c10::ScalarType::Float) intraop.meet_other_dtype();
      if (impl->numel() == 1) intraop.meet_single_element();
    }
  }
  intraop.count_elements(impl->numel());
  if (wrapped_) impl->set_wrapped_number(true);
  if (conjugate_ != impl->is_conj()) impl->_set_conj(conjugate_);
  if (negative_ != impl->is_neg()) impl->_set_neg(negative_);
  if (c10::isComplexType(type_)) worker_tensors().keep_conjugate_bit(tensor, conjugate_);
  return tensor;
}

} // namespace tb::ops
