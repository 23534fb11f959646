// callback.h -- Python functions in the order of a stream.
#pragma once

#include <nanobind/nanobind.h>

#include "stream_object.h"

namespace tb {

// function(*arguments) on a thread of the driver.
void add_callback(const Stream &stream, nanobind::object function, nanobind::tuple arguments);

} // namespace tb
