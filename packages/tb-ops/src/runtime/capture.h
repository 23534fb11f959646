// Whether a stream captures (tb_stream.capture, torch.tb.graph): its work is then recorded into a graph and does not run.
#pragma once
#include <string>

#include "runtime/runtime.h"

namespace tb::ops {

// While it is false, no stream captures. A relaxed load.
inline bool any_capture() { return __atomic_load_n(runtime.stream.capturing, __ATOMIC_RELAXED) != 0; }

// Throws if several captures are in progress and the stream joined an unknown one of them.
bool in_capture(tb_stream *stream);

// For what no graph can contain: ends the capture that the stream takes part in, if it can be interrupted, after which
// the caller goes on as outside of a capture. Returns whether the stream still captures, so that the caller refuses.
// reason: a sentence without its end. Throws if the captured work cannot be launched.
bool captures_after_interruption(tb_stream *stream, const std::string &reason);

} // namespace tb::ops
