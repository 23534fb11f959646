// For kernels that stand above autograd, with a node of their own: whether a call may take them. Calls that anything looks
// into (modes, transforms, tensor subclasses) are PyTorch's.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace tb {

// What a call's keys may be: a device tensor of ours, recorded or not, and nothing that wants to see the call.
inline bool unwatched(c10::DispatchKeySet keys) {
  static const uint64_t known =
      c10::DispatchKeySet({c10::DispatchKey::PrivateUse1, c10::DispatchKey::AutogradPrivateUse1,
                           c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::BackendSelect})
          .raw_repr();
  return (keys.raw_repr() & ~known) == 0;
}

// The keys that a call with this tensor would have.
inline c10::DispatchKeySet keys_of(const at::Tensor &tensor) {
  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  return (tensor.key_set() | local.included_) - local.excluded_;
}

} // namespace tb
