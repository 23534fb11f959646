// Device memory for the host, on drivers where it may touch it.
#pragma once
#include "launch/tensor_descriptor.h"

namespace tb {

// A CPU tensor over the bytes of a device tensor, for the calling thread, which has waited for what was queued on them.
class HostView {
public:
  explicit HostView(const at::Tensor &tensor) : argument_(tensor) { launch_notes.take(); } // of no launch
  at::Tensor &operator*() { return alias_; }

private:
  AliasScope scope_;
  WrittenArgument argument_;
  at::Tensor &alias_ = argument_.alias();
};

} // namespace tb
