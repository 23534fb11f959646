// tb-ops' function table (tb/operator_table.h), through which other libraries launch their operators.
#pragma once
#include "tb/operator_table.h"

namespace tb::ops {

extern const tb_export exported;

// Calls the functions that on_native was given; from now on on_native calls at once.
void register_custom();

} // namespace tb::ops
