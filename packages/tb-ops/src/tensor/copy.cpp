// Copies between every pair of devices, blocking or not, and reads single numbers. If the host may touch device memory,
// closures and the caller itself copy tensors of any strides and dtypes. Otherwise the driver copies contiguous bytes
// and the CPU does the rest.
//
// A copy from or to the host has finished when the call returns, for every stream and thread, since no later call would
// wait for it. The one exception is CUDA's too: a copy with pinned memory and non_blocking=True is queued on the
// current stream.
#include "tensor/copy.h"

#include "launch/host_view.h"
#include "launch/launch.h"
#include "runtime/capture.h"
#include "structured/pointwise_meta.h"
#include "tensor/shared_copy.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/ops/_copy_from_and_resize_ops.h>
#include <ATen/ops/_copy_from_ops.h>
#include <ATen/ops/_local_scalar_dense_ops.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstddef>
#include <cstring>

namespace tb::ops {
namespace {

bool is_tb(const at::Tensor &tensor) { return tensor.device().type() == device_type; }

void copy_kernel(at::Tensor &dst, const at::Tensor &src) { at::_ops::copy_::call(dst, src, false); }

// Makes the current stream of `waiting` wait for all work that is queued on the current stream of `done`.
void wait_for(c10::DeviceIndex waiting, c10::DeviceIndex done) {
  tb_event *event = nullptr;
  check(runtime.stream.event_acquire(done, 0, &event), "copy", done);
  tb_status status = runtime.driver->event_record(runtime.self, event, current_stream(done));
  if (status == TB_OK) status = runtime.driver->stream_wait_event(runtime.self, current_stream(waiting), event);
  runtime.stream.event_release(event);
  check(status, "copy", waiting);
}

void device_to_device(const at::Tensor &src, const at::Tensor &dst) {
  at::assert_no_internal_overlap(dst);
  at::assert_no_partial_overlap(dst, src);
  const c10::DeviceIndex from = device_number(src), to = device_number(dst);
  if (from != to) wait_for(from, to);
  launch_kernel<"aten::copy_", copy_kernel>(from, dst, src);
  if (from != to) wait_for(to, from);
}

// Whether a copy from or to this tensor of the host may be queued without a wait. host.is_pinned() goes through the
// dispatcher, which costs as much as the copy of a number.
bool may_queue(const at::Tensor &host, bool non_blocking) {
  return non_blocking &&
         at::globalContext().getAcceleratorHooksInterface(device_type).isPinnedPtr(host.storage().data());
}

void queue_with_host(const at::Tensor &src, const at::Tensor &dst) {
  constexpr auto share = TensorDescriptor::HostTensor::share;
  launch<"aten::copy_">(device_number(is_tb(dst) ? dst : src),
                        [to = WrittenDescriptor(dst, share), from = TensorDescriptor(src, share)]() mutable {
                          copy_kernel(to.as_cpu_tensor(), from.as_cpu_tensor());
                        });
}

// Waits for all work of the current stream, then copies on the calling thread. The worker does a copy that PyTorch's
// kernel divides among OpenMP threads, because it has such threads.
void copy_now(const at::Tensor &src, const at::Tensor &dst) {
  const c10::DeviceIndex device = device_number(is_tb(dst) ? dst : src);
  synchronize(device, "aten::copy_");
  if (dst.numel() >= at::internal::GRAIN_SIZE) {
    queue_with_host(src, dst);
    synchronize(device, "aten::copy_", SyncReason::first_dtype); // the first wait was reported already
  } else if (is_tb(dst)) {
    copy_kernel(*HostView(dst), src);
  } else {
    copy_kernel(const_cast<at::Tensor &>(dst), *HostView(src));
  }
}

void with_host(const at::Tensor &src, const at::Tensor &dst, bool non_blocking) {
  if (may_queue(is_tb(dst) ? src : dst, non_blocking)) return queue_with_host(src, dst);
  if (is_tb(dst)) refuse_captured_copy(device_number(dst));
  copy_now(src, dst);
}

// ---- plain bytes: no kernel, no aliases -------------------------------------------------------------------------

// Up to this size PyTorch's kernel copies on one thread; beyond, a worker's threads are faster than memcpy.
constexpr size_t plain_limit = 1 << 17;

// Returns false, and copies nothing, if the tensors are not plain or the copy is of another kind.
bool copy_plain(const at::Tensor &dst, const at::Tensor &src, bool non_blocking) {
  if (!plain(dst) || !plain(src) || !same_type_and_shape(dst, src)) return false;
  const size_t bytes = dst.nbytes();
  if (bytes == 0) return false;
  if (is_tb(src) && is_tb(dst)) {
    if (bytes > plain_limit || src.device() != dst.device() || partly_overlap(dst, src)) return false;
    launch<"aten::copy_">(device_number(dst), [to = dst.mutable_data_ptr(), from = src.const_data_ptr(), bytes] {
      std::memmove(to, from, bytes); // the tensors may be the same
    });
    return true;
  }
  const bool to_device = is_tb(dst);
  const at::Tensor &host = to_device ? src : dst;
  if (!host.is_cpu()) return false;
  const c10::DeviceIndex device = device_number(to_device ? dst : src);
  if (may_queue(host, non_blocking)) {
    launch<"aten::copy_">(device, [to = dst.mutable_data_ptr(), from = src.const_data_ptr(), bytes,
                                   kept = c10::Storage(host.storage())] { std::memcpy(to, from, bytes); });
    return true;
  }
  if (to_device) refuse_captured_copy(device);
  synchronize(device, "aten::copy_");
  copy_bytes_now(device, dst.mutable_data_ptr(), src.const_data_ptr(), bytes);
  return true;
}

// ---- drivers whose memory the host may not touch ----------------------------------------------------------------

// Copies bytes. A copy from or to the host has finished when this returns.
void move_bytes(c10::DeviceIndex device, void *dst, const void *src, size_t bytes, int32_t kind) {
  if (bytes == 0) return;
  const bool waits = kind != TB_COPY_DEVICE_TO_DEVICE;
  if (waits) announce_wait(device, "aten::copy_");
  queue_bytes(device, dst, src, bytes, kind);
  if (waits) wait_announced(device);
}

bool dense(const at::Tensor &tensor) {
  return tensor.is_non_overlapping_and_dense() && !tensor.is_conj() && !tensor.is_neg();
}

// Returns a CPU tensor with the same shape, strides and bytes.
at::Tensor fetch(const at::Tensor &src) {
  at::Tensor host =
      at::_ops::empty_strided::call(c10::fromIntArrayRefSlow(src.sizes()), c10::fromIntArrayRefSlow(src.strides()),
                                    src.scalar_type(), std::nullopt, c10::Device(c10::kCPU), std::nullopt);
  move_bytes(device_number(src), host.mutable_data_ptr(), src.data_ptr(), span_bytes(src), TB_COPY_DEVICE_TO_HOST);
  if (src.is_conj()) host._set_conj(true);
  if (src.is_neg()) host._set_neg(true);
  return host;
}

ElementCopy element_copy = nullptr;

// Copies with a kernel of the device. Returns false if there is none for these tensors.
bool copy_on_device(const at::Tensor &src, const at::Tensor &dst) {
  if (!element_copy || src.device() != dst.device()) return false;
  at::assert_no_internal_overlap(dst);
  at::assert_no_partial_overlap(dst, src);
  return element_copy(src, dst);
}

void store(const at::Tensor &dst, const at::Tensor &host);

// Copies to a contiguous tensor on the device, and from there to `dst`. Returns false if the device has no kernel for
// that.
bool copy_through_staging(const at::Tensor &dst, const at::Tensor &host) {
  if (!element_copy) return false;
  const at::Tensor staged = empty(dst.sizes(), {}, dst.scalar_type(), device_number(dst));
  store(staged, host);
  return copy_on_device(staged, dst);
}

void store(const at::Tensor &dst, const at::Tensor &host) {
  if (dense(dst)) {
    at::Tensor shaped =
        at::_ops::empty_strided::call(c10::fromIntArrayRefSlow(dst.sizes()), c10::fromIntArrayRefSlow(dst.strides()),
                                      dst.scalar_type(), std::nullopt, c10::Device(c10::kCPU), std::nullopt);
    at::_ops::copy_::call(shaped, host, false);
    return move_bytes(device_number(dst), dst.data_ptr(), shaped.data_ptr(), span_bytes(dst), TB_COPY_HOST_TO_DEVICE);
  }
  if (copy_through_staging(dst, host)) return synchronize(device_number(dst), "aten::copy_");
  // The elements between those of `dst` must keep their values, so this reads the whole span, changes it and writes it
  // back.
  at::Tensor shaped = fetch(dst);
  at::_ops::copy_::call(shaped, host, false);
  move_bytes(device_number(dst), dst.data_ptr(), shaped.data_ptr(), span_bytes(dst), TB_COPY_HOST_TO_DEVICE);
}

bool same_bytes(const at::Tensor &one, const at::Tensor &other) {
  return one.dtype() == other.dtype() && one.strides() == other.strides() && dense(one) && dense(other);
}

// Queues the copy on the current stream if these tensors and the driver's streams need no wait; returns false
// otherwise. The pinned memory is not used again until the stream has passed the copy.
bool queue_with_pinned(const at::Tensor &src, const at::Tensor &dst, bool non_blocking) {
  const bool to_device = is_tb(dst);
  const at::Tensor &host = to_device ? src : dst;
  const c10::DeviceIndex device = device_number(to_device ? dst : src);
  if (!(runtime.driver->groups & TB_GROUP_ASYNC) || !may_queue(host, non_blocking) || !same_bytes(src, dst))
    return false;
  if (span_bytes(src) == 0 || in_capture(current_stream(device))) return false;
  const c10::impl::VirtualGuardImpl streams(device_type);
  void *memory = host.storage().mutable_data();
  if (!at::getHostAllocator(device_type)->record_event(memory, nullptr, streams.getStream({device_type, device})))
    return false;
  queue_bytes(device, dst.data_ptr(), src.data_ptr(), span_bytes(src),
              to_device ? TB_COPY_HOST_TO_DEVICE : TB_COPY_DEVICE_TO_HOST);
  return true;
}

void copy_bytes(const at::Tensor &src, const at::Tensor &dst, bool non_blocking) {
  if (is_tb(src) && is_tb(dst)) {
    if (src.device() == dst.device() && same_bytes(src, dst))
      return move_bytes(device_number(dst), dst.data_ptr(), src.data_ptr(), span_bytes(dst), TB_COPY_DEVICE_TO_DEVICE);
    if (copy_on_device(src, dst)) return;
  } else if (queue_with_pinned(src, dst, non_blocking)) {
    return;
  }
  const at::Tensor host = is_tb(src) ? fetch(src) : src;
  if (is_tb(dst)) return store(dst, host);
  at::_ops::copy_::call(const_cast<at::Tensor &>(dst), host, false);
}

// ---- the operators ----------------------------------------------------------------------------------------------

// Whether the lazy backend must do the copy. PyTorch calls tb's kernel even if the other tensor is a lazy one.
bool is_lazy(const at::Tensor &tensor) { return tensor.device().type() == c10::DeviceType::Lazy; }

at::Tensor copy_from(const at::Tensor &self, const at::Tensor &dst, bool non_blocking) {
  if (is_lazy(self) || is_lazy(dst))
    return at::_ops::_copy_from::redispatch(c10::DispatchKeySet(c10::DispatchKey::Lazy), self, dst, non_blocking);
  if (self.numel() == 0 && dst.numel() == 0) return dst;
  const bool src_here = is_tb(self), dst_here = is_tb(dst);
  // A copy from or to a third device goes through the CPU, which both devices support.
  if (!src_here && !self.is_cpu()) return copy_from(self.to(c10::kCPU), dst, non_blocking);
  if (!dst_here && !dst.is_cpu()) {
    const_cast<at::Tensor &>(dst).copy_(self.to(c10::kCPU), non_blocking);
    return dst;
  }
  const at::Tensor src = self.sizes() == dst.sizes() ? self : self.expand(dst.sizes());
  if (!runtime.closures)
    copy_bytes(src, dst, non_blocking);
  else if (src_here && dst_here)
    device_to_device(src, dst);
  else
    with_host(src, dst, non_blocking);
  return dst;
}

// All copies start here. PyTorch's own function does the checks and calls copy_from.
at::Tensor &copy_(at::Tensor &self, const at::Tensor &src, bool non_blocking) {
  if (runtime.closures && copy_plain(self, src, non_blocking)) return self;
  return at::native::copy_(self, src, non_blocking);
}

at::Tensor copy_from_and_resize(const at::Tensor &self, const at::Tensor &dst) {
  if (is_lazy(self) || is_lazy(dst))
    return at::_ops::_copy_from_and_resize::redispatch(c10::DispatchKeySet(c10::DispatchKey::Lazy), self, dst);
  if (self.sizes() != dst.sizes()) const_cast<at::Tensor &>(dst).resize_(self.sizes());
  return copy_from(self, dst, false);
}

c10::Scalar local_scalar_dense(const at::Tensor &self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  if (!runtime.closures) return at::_ops::_local_scalar_dense::call(fetch(self));
  synchronize(device_number(self), "aten::_local_scalar_dense (item(), bool(), if)");
  return at::_ops::_local_scalar_dense::call(*HostView(self));
}

} // namespace

size_t span_bytes(const at::Tensor &tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); i++) last += (tensor.size(i) - 1) * tensor.stride(i);
  return static_cast<size_t>(last + 1) * tensor.element_size();
}

void queue_bytes(c10::DeviceIndex device, void *dst, const void *src, size_t bytes, int32_t kind) {
  const bool streams = runtime.driver->groups & TB_GROUP_ASYNC;
  check(
      runtime.driver->mem_copy(runtime.self, device, streams ? current_stream(device) : nullptr, dst, src, bytes, kind),
      "mem_copy", device);
}

void set_element_copy(ElementCopy copy) { element_copy = copy; }

void register_copies(torch::Library &aten) {
  aten.impl("copy_", &copy_);
  aten.impl("_copy_from", &copy_from);
  aten.impl("_copy_from_and_resize", &copy_from_and_resize);
  aten.impl("_local_scalar_dense", &local_scalar_dense);
  // The CPU tensors carry the conjugate and negative bits. Without the fallthrough, PyTorch would resolve the bits of a
  // tensor by copying it, which would call itself for ever.
  for (const c10::DispatchKey bit : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    static std::vector<torch::Library> *libraries = new std::vector<torch::Library>();
    libraries->emplace_back(torch::Library::IMPL, "aten", bit, __FILE__, __LINE__);
    libraries->back().impl("_copy_from", torch::CppFunction::makeFallthrough());
  }
}

} // namespace tb::ops
