// The extension tb.graph as get_extension gives it.
#pragma once

#include "tb/graph.h"

namespace tb::drivers::cpu {

// Every function there is; struct_size is its own.
tb_graph_api graph_table();

} // namespace tb::drivers::cpu
