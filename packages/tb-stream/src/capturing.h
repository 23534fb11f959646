// capturing.h -- the number of captures in progress, which the hot paths of other components and of the timeline read.
#pragma once

#include <cstdint>

namespace tb::stream {

// Written atomically. 0 means that no stream captures.
extern int32_t capturing;

} // namespace tb::stream
