// Which attention calls our microkernel computes.
#pragma once
#include <utility>
#include <vector>

#include "microkernels/attention.h"

namespace tb::ops::host {

// The sizes that were tried, and whether our microkernel computes them.
std::vector<std::pair<microkernels::AttentionSize, bool>> tried_attention();

} // namespace tb::ops::host
