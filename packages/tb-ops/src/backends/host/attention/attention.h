// Scaled dot product attention.
#pragma once
#include <utility>
#include <vector>

#include "backends/host/attention/float_attention.h"

namespace tb::ops::host {

// The sizes that were tried, and whether tb-ops' kernel computes them.
std::vector<std::pair<AttentionSize, bool>> tried_attention();

} // namespace tb::ops::host
