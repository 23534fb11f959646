// Launches of kernels that run on the host: the checks of a launch, and the loop over its blocks.
#pragma once

#include "drivers/common/host_module.h"

namespace tb::drivers {

struct LaunchLimits {
  const char *driver;        // in texts: "CPU"
  uint64_t largest_argument; // bytes
};

// TB_OK when a launch of `function` on a stream of `place` is valid; its arguments are all there then.
tb_status check_launch(const Function &function, const Module::Place &place, const tb_launch &config,
                       const LaunchLimits &limits);

enum class BlockOrder { ascending, descending };

// Calls the kernel for every block of call.grid. A failure gets the kernel's name before its text, so that the text
// says which of many launches failed; `context` has room for it.
tb_status run_blocks(const Function &function, tb_host_kernel_call &call, const tb_closure_context &context,
                     BlockOrder order);

} // namespace tb::drivers
