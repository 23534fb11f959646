// graph_slots.h -- the extension tb.graph as get_extension gives it.
#ifndef TB_CPU_GRAPH_SLOTS_H
#define TB_CPU_GRAPH_SLOTS_H

#include "tb/graph.h"

namespace tb::cpu {

// Every function there is; struct_size is its own.
tb_graph_api graph_table();

} // namespace tb::cpu
#endif
