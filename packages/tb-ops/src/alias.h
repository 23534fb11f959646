// Further aliases that a kernel makes of the aliases it was given.
#pragma once
#include "argument.h"

namespace tb {

// Elements of a contiguous alias, in one dimension, on any thread of the kernel; valid until its part ends.
at::Tensor &slice(const at::Tensor &alias, int64_t begin, int64_t count);

} // namespace tb
