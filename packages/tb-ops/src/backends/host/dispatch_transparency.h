// Whether a call may bypass PyTorch's composite implementation, for kernels on the autograd key that record a node of
// their own. It may not if a dispatch mode, a functorch transform, a tensor subclass or a hook on saved tensors must observe the
// call.
#pragma once
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace tb::ops::host {

// Returns true if the dispatch keys of a call are those of tb tensors, recorded by autograd or not, and nothing must
// observe the call.
inline bool can_bypass_dispatch(c10::DispatchKeySet keys) {
  static const uint64_t known =
      c10::DispatchKeySet({c10::DispatchKey::PrivateUse1, c10::DispatchKey::AutogradPrivateUse1,
                           c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::BackendSelect})
          .raw_repr();
  return (keys.raw_repr() & ~known) == 0;
}

// Whether hooks get the tensors that a call saves for its backward pass (save_on_cpu, checkpoints). They must get those that
// PyTorch's composition saves, in its order: a checkpoint compares them with those of its second forward pass, which may
// run under a dispatch mode.
inline bool has_saved_tensor_hooks() { return !at::SavedTensorDefaultHooks::get_tls_state().stack.empty(); }

// Returns the dispatch keys that a call with this tensor would have.
inline c10::DispatchKeySet keys_of(const at::Tensor &tensor) {
  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  return (tensor.key_set() | local.included_) - local.excluded_;
}

} // namespace tb::ops::host
