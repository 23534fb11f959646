// trace_text.h -- a recording as Chrome's and Perfetto's JSON.
#pragma once

#include <string>
#include <vector>

#include "tb/component.h"

namespace tb::stream {

// Threads of the host are the rows of one process, and streams of each device those of another. An operation that has
// not run to its end has no row on its stream.
std::string trace_text(const std::vector<tb_record> &records);

} // namespace tb::stream
