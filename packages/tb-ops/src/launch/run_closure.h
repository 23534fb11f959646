// The worker's side of a launch: runs a kernel with the settings of the thread that launched it.
#pragma once
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cstdint>

#include "intraop/thread_invariant_ops.h"
#include "runtime/call_site.h"
#include "tb/component.h"
#include "worker/denormals.h"

namespace tb::ops {

// The settings of the launching thread.
struct LaunchContext {
  int32_t threads = at::get_num_threads(); // of torch.set_num_threads
  bool deterministic = at::globalContext().deterministicAlgorithms();
  bool flushes_denormals = ops::flushes_denormals();
  PythonCallSite site = current_call_site();
};

// Runs call(storage) on the worker. `kernel`: the address that identifies the kernel for the measured times. Returns its
// status; on a failure, leaves the text of the exception in `context`.
tb_status run_closure(void (*call)(void *storage), const void *kernel, void *storage, ThreadInvariance invariance,
                      const LaunchContext &launch_context, const tb_closure_context *context);

} // namespace tb::ops
