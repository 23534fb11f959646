// tb-ops' function table (tb/operator_table.h), which other components import.
#pragma once
#include "tb/operator_table.h"

namespace tb::ops {

extern const tb_export exported;

} // namespace tb::ops
