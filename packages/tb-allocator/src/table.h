// table.h -- the heaps of the process behind the C table that other components import.
#pragma once

#include "tb/component.h"

namespace tb {

extern const tb_allocator_table allocator_table;
extern const tb_export allocator_export;

} // namespace tb
