// Functions that the host puts around a completed table: it notes which streams live and when a driver is first used,
// and waits without Python's lock. Each function is called once, in this order, after the table has no NULL left.
#pragma once

#include "registry/registry.h"

namespace tb::device {

// From now on is_stream() knows the driver's streams. It is not called in a forked child: the table refuses all calls
// there.
void track_streams(Driver &driver);
int32_t is_stream(const tb_stream *stream); // 1 if it is alive

// From now on functions that may wait for queued work give up Python's lock: stream_synchronize, event_synchronize and
// device_synchronize of all drivers, further ones of drivers without CLOSURE.
void wait_without_lock(Driver &driver);

// From now on the driver's first use is noted, if a forked child needs to know of it.
void note_first_use(Driver &driver);

} // namespace tb::device
