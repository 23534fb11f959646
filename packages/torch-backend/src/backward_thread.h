// Where backward passes run: on the thread that calls them, as on the CPU.
//
// PyTorch gives each accelerator a thread for backward passes while the caller waits. Our launches do not block, so the
// second thread brings nothing and costs two hand-overs a pass, and the line that called a failing operator is unknown
// there. `torch.autograd.set_multithreading_enabled` is a setting of each thread; ours is made once, when a thread first
// asks for device memory, so that a program's own later choice stands. TB_BACKWARD_THREAD=own leaves PyTorch's.
#pragma once
#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cstdlib>
#include <string_view>

namespace tb {

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
  if (torch::autograd::get_current_graph_task_id() != -1) return; // PyTorch's thread: where the pass runs is decided
  static const bool on_caller = backward_on_caller();
  if (on_caller) c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  settled = true;
}

} // namespace tb
