// Whether a stream captures (tb_stream.capture, torch.tb.graph): its work is then recorded into a graph and does not run.
#pragma once
#include "runtime/runtime.h"

namespace tb::ops {

// While it is false, no stream captures. A relaxed load.
inline bool any_capture() { return __atomic_load_n(runtime.stream.capturing, __ATOMIC_RELAXED) != 0; }

// Throws if several captures are in progress and the stream joined an unknown one of them.
bool in_capture(tb_stream *stream);

} // namespace tb::ops
