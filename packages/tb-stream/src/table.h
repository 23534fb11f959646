// table.h -- the C table of tb-stream, and the record through which other components import it.
#pragma once

#include "tb/component.h"

namespace tb::stream {

extern const tb_stream_table stream_table;
extern const tb_export stream_export;

} // namespace tb::stream
