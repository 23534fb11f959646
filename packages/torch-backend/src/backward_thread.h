// backward_thread.h -- runs backward passes on the thread that calls them, as on the CPU.
//
// PyTorch runs backward passes of an accelerator on a thread of its own while the caller waits. Launches on tb do not
// block, so that thread saves nothing: it costs two hand-overs a pass, and does not know the line that called a failing
// operator. `torch.autograd.set_multithreading_enabled` is a setting of each thread. It is changed once, when a thread
// first allocates device memory, so that a program's later choice is kept. TB_BACKWARD_THREAD=own keeps PyTorch's
// thread.
#pragma once
#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cstdlib>
#include <string_view>

namespace tb::backend {

inline bool backward_on_caller() {
  const char *value = std::getenv("TB_BACKWARD_THREAD");
  if (!value || !*value) return true;
  const std::string_view wanted = value;
  TORCH_CHECK_VALUE(wanted == "caller" || wanted == "own", "TB_BACKWARD_THREAD is '", wanted,
                    "'. It is 'caller' (the default: backward passes run on the thread that calls them) or 'own' "
                    "(PyTorch's thread for the device).");
  return wanted == "caller";
}

inline void settle_backward_thread() {
  static thread_local bool settled = false;
  if (settled) [[likely]]
    return;
  if (torch::autograd::get_current_graph_task_id() != -1) return; // inside a pass, whose thread is chosen already
  static const bool on_caller = backward_on_caller();
  if (on_caller) c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  settled = true;
}

} // namespace tb::backend
