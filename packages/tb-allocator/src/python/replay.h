// replay.h -- the replay functions of the module.
#pragma once

#include <nanobind/nanobind.h>

namespace tb::allocator {

void bind_replay(nanobind::module_ &m);

} // namespace tb::allocator
