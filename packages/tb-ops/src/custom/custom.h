// tb-ops' function table (tb/operator_table.h), through which other libraries launch their operators.
#pragma once
#include "tb/operator_table.h"

namespace tb::ops {

extern const tb_export exported;

// Calls the functions that were passed to on_native. Later calls of on_native call their function at once.
void register_custom();

} // namespace tb::ops
