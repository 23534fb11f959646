/* tb/graph.h -- the extension "tb.graph": work captured once and launched many times.
 *
 * A driver gives the table through get_extension("tb.graph", TB_GRAPH_VERSION, &table, sizeof table). Every function
 * takes the driver's `self` first and follows the rules of driver.h; graph_slots.inc is the specification.
 */
#ifndef TB_GRAPH_H
#define TB_GRAPH_H

#include "tb/driver.h"

#define TB_GRAPH_EXTENSION "tb.graph"
#define TB_GRAPH_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tb_graph tb_graph;
typedef struct tb_graph_exec tb_graph_exec;

typedef struct tb_graph_api {
  uint32_t struct_size;
  uint32_t version;
#define TB_SLOT(group, need, name, parameters, arguments) tb_status(*name) TB_SLOT_PARAMETERS parameters;
#define TB_SLOT_PARAMETERS(...) (tb_driver * self, __VA_ARGS__)
#include "tb/graph_slots.inc"
#undef TB_SLOT
#undef TB_SLOT_PARAMETERS
} tb_graph_api;

#ifdef __cplusplus
}
#endif
#endif
