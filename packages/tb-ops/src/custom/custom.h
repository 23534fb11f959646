// tb-ops' function table (tb/operator_table.h): operators of other libraries on our launch seam.
#pragma once
#include "tb/operator_table.h"

namespace tb {

extern const tb_export exported;

// Calls what on_native was given; from now on on_native calls at once.
void register_custom();

} // namespace tb
