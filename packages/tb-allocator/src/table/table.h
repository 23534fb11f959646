// table.h -- the C table that other components import, and its export record.
#pragma once

#include "tb/component.h"

namespace tb::allocator {

extern const tb_allocator_table allocator_table;
extern const tb_export allocator_export;

} // namespace tb::allocator
