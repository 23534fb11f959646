// Tensors on their way from the calling thread to the stream's worker: the caller makes a plain descriptor, the worker a
// CPU tensor over the same bytes. No device tensor is kept alive: its memory is reused in stream order.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "launch/launch_notes.h"

namespace tb::ops {

// A tensor's address, shape and dtype. A CPU tensor without dimensions is held by value, with its wrapped-number flag, on
// which type promotion depends. Another CPU tensor is copied, so that the caller may change it at once.
class TensorDescriptor {
public:
  // A CPU tensor is copied, or its bytes are shared (the caller promises not to change them).
  enum class HostTensor { copy, share };
  explicit TensorDescriptor(const at::Tensor &tensor, HostTensor host = HostTensor::copy);
  ~TensorDescriptor();
  TensorDescriptor(const TensorDescriptor &) = delete;
  TensorDescriptor &operator=(const TensorDescriptor &) = delete;
  TensorDescriptor(TensorDescriptor &&other) noexcept;
  TensorDescriptor &operator=(TensorDescriptor &&other) noexcept {
    if (this == &other) return *this;
    this->~TensorDescriptor();
    return *new (this) TensorDescriptor(std::move(other));
  }

  // On the worker: a CPU tensor over the bytes, valid until the closure ends. An undefined tensor stays undefined.
  const at::Tensor &as_cpu_tensor() { return writable(); }

  // For tensors on the device.
  void *data() const { return data_; }
  c10::ScalarType type() const { return type_; }
  int64_t elements() const {
    const int64_t *lengths = dimensions_ > inline_dimensions ? heap_ : inline_;
    int64_t count = 1;
    for (uint32_t i = 0; i < dimensions_; i++) count *= lengths[i];
    return count;
  }

private:
  friend class WrittenDescriptor;
  friend at::Tensor &materialize(TensorDescriptor &argument);
  static constexpr size_t inline_dimensions = 4;
  at::Tensor &writable();
  [[gnu::noinline]] void capture_unusual(const at::Tensor &tensor, HostTensor host);
  int64_t *sizes() { return dimensions_ > inline_dimensions ? heap_ : inline_; }

  // The members that tensors of few dimensions need come first: each cache line of the queue that the caller writes must be
  // fetched from the worker's processor.
  void *data_ = nullptr;
  c10::intrusive_ptr<c10::TensorImpl> host_;
  uint32_t dimensions_ = 0;
  c10::ScalarType type_ = c10::ScalarType::Undefined;
  bool by_value_ = false, wrapped_ = false, conjugate_ = false, negative_ = false;
  union {
    int64_t inline_[2 * inline_dimensions]; // sizes, then strides
    int64_t *heap_;
    alignas(16) unsigned char value_[16]; // as complex numbers need it
  };
};

// Whether several elements are one: some dimension of more than one element has stride 0.
inline bool overlaps_itself(const at::Tensor &tensor) {
  if (!tensor.defined() || tensor.is_non_overlapping_and_dense()) return false;
  const c10::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  for (size_t i = 0; i < sizes.size(); i++)
    if (strides[i] == 0 && sizes[i] > 1) [[unlikely]]
      return true;
  return false;
}

// A tensor that a closure writes to: only its CPU tensor may be changed. The launch notes whether it overlaps itself.
class WrittenDescriptor : public TensorDescriptor {
public:
  explicit WrittenDescriptor(const at::Tensor &tensor, HostTensor host = HostTensor::copy)
      : TensorDescriptor(tensor, host) {
    if (overlaps_itself(tensor)) [[unlikely]]
      launch_notes.add_overlap();
  }
  at::Tensor &as_cpu_tensor() { return writable(); }
};

} // namespace tb::ops
