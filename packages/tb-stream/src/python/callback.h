// callback.h -- calls of Python functions in stream order.
#pragma once

#include <nanobind/nanobind.h>

#include "python/stream_handle.h"

namespace tb::stream {

// Queues a call function(*arguments), which runs on a thread of the driver. Holds a reference to both until the call
// has run, or the work is dropped. Raises TypeError if `function` cannot be called.
void add_callback(const Stream &stream, nanobind::object function, nanobind::tuple arguments);

} // namespace tb::stream
