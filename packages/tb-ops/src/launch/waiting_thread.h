// A host thread that runs closures while it waits for them: tb_closure_context.on_waiter.
#pragma once
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

#include "intraop/thread_policy.h"
#include "worker/worker_tensors.h"

namespace tb::ops {

// While it lives, the calling thread has the settings of a worker: dispatch below autograd, without the modes of its own
// program, and worker tensors of its own. Then it has its own again, and its counts of threads.
class WaitingThreadScope {
public:
  WaitingThreadScope();
  ~WaitingThreadScope();
  WaitingThreadScope(const WaitingThreadScope &) = delete;
  WaitingThreadScope &operator=(const WaitingThreadScope &) = delete;

private:
  std::optional<c10::InferenceMode> no_inference_; // if the thread was in inference mode
  const c10::impl::ForceDispatchKeyGuard keys_;
  WorkerTensors *const tensors_;
  const bool flushes_denormals_;
  const ThreadCountsScope counts_;
};

} // namespace tb::ops
