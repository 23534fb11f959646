// Device memory for the calling thread, on drivers whose memory the host may touch.
#pragma once
#include "launch/tensor_descriptor.h"
#include "worker/worker_tensors.h"

namespace tb::ops {

// A CPU tensor over the bytes of a device tensor. The calling thread has waited for the work that was queued on them.
class HostView {
public:
  explicit HostView(const at::Tensor &tensor) : descriptor_(tensor) { launch_notes.take(); } // they belong to no launch
  at::Tensor &operator*() { return tensor_; }

private:
  WorkerTensorScope scope_;
  WrittenDescriptor descriptor_;
  at::Tensor &tensor_ = descriptor_.as_cpu_tensor();
};

} // namespace tb::ops
