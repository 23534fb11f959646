// Changes the settings of a thread for a while.
#include "launch/waiting_thread.h"

#include <ATen/Context.h>

#include <memory>
#include <utility>

#include "worker/denormals.h"

namespace tb::ops {
namespace {

// The thread may be in the middle of a call that has taken worker tensors.
WorkerTensors *tensors_for_closures() {
  static thread_local const auto own = std::make_unique<WorkerTensors>();
  return own.get();
}

} // namespace

WaitingThreadScope::WaitingThreadScope()
    : no_inference_(c10::InferenceMode::is_enabled() ? std::optional<c10::InferenceMode>(std::in_place, false)
                                                     : std::nullopt),
      keys_(c10::default_included_set, c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView),
      tensors_(std::exchange(thread_worker_tensors, tensors_for_closures())), flushes_denormals_(flushes_denormals()) {}

WaitingThreadScope::~WaitingThreadScope() {
  if (flushes_denormals() != flushes_denormals_) at::globalContext().setFlushDenormal(flushes_denormals_);
  thread_worker_tensors = tensors_;
}

} // namespace tb::ops
