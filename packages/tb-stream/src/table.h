// table.h -- the record that other components import.
#pragma once

#include "tb/component.h"

namespace tb {

extern const tb_stream_table stream_table;
extern const tb_export stream_export;

} // namespace tb
