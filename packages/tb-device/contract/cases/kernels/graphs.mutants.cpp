// Drivers whose graphs break a rule.
#include <cstring>

#include "contract/mutant.h"
#include "tb/graph.h"

namespace tb::contract::graphs_mutants {
namespace {

tb_status ok() { return TB_OK; }

tb_graph_api honest_graph{};

// Gives the honest extension with its functions changed.
template <void (*Change)(tb_graph_api &)> void change_graph(tb_driver_api &api) {
  api.get_extension = [](tb_driver *self, const char *name, uint32_t version, void *table, uint32_t size) {
    const tb_status status = real().get_extension(self, name, version, table, size);
    if (status != TB_OK || std::strcmp(name, TB_GRAPH_EXTENSION) != 0 || size < sizeof(tb_graph_api)) return status;
    auto &graph = *static_cast<tb_graph_api *>(table);
    honest_graph = graph;
    Change(graph);
    return status;
  };
}

void run_while_capturing(tb_graph_api &graph) {
  graph.capture_begin = [](tb_driver *, tb_stream *, uint64_t) { return ok(); };
  graph.capture_end = [](tb_driver *self, tb_stream *stream, tb_graph **out) {
    const tb_status status = honest_graph.capture_begin(self, stream, 0);
    return status == TB_OK ? honest_graph.capture_end(self, stream, out) : status;
  };
}
TB_MUTANT(capture_runs, "cpu", "capture_begin.1", "GRA-01", "work enqueued while capturing runs at once") {
  change_graph<run_while_capturing>(api);
}

void capture_default_stream(tb_graph_api &graph) {
  graph.capture_begin = [](tb_driver *self, tb_stream *stream, uint64_t flags) {
    const tb_status status = honest_graph.capture_begin(self, stream, flags);
    return status == TB_FAILED_PRECONDITION ? ok() : status;
  };
}
TB_MUTANT(capture_anywhere, "cpu", "capture_begin.3", "GRA-03",
          "the default stream and one that captures begin a capture") {
  change_graph<capture_default_stream>(api);
}

void never_active(tb_graph_api &graph) {
  graph.capture_is_active = [](tb_driver *self, tb_stream *stream, int32_t *out) {
    const tb_status status = honest_graph.capture_is_active(self, stream, out);
    if (status == TB_OK) *out = 0;
    return status;
  };
}
TB_MUTANT(capture_never_active, "cpu", "capture_is_active.1", "GRA-06", "no stream says that it captures") {
  change_graph<never_active>(api);
}

void count_one_more(tb_graph_api &graph) {
  graph.graph_node_count = [](tb_driver *self, tb_graph *counted, uint64_t *out) {
    const tb_status status = honest_graph.graph_node_count(self, counted, out);
    if (status == TB_OK && *out > 1) ++*out;
    return status;
  };
}
TB_MUTANT(graph_counts_events, "cpu", "graph_node_count.1", "GRA-09", "a node is counted that is none") {
  change_graph<count_one_more>(api);
}

void launch_twice(tb_graph_api &graph) {
  graph.graph_launch = [](tb_driver *self, tb_graph_exec *executable, tb_stream *stream) {
    const tb_status status = honest_graph.graph_launch(self, executable, stream);
    return status == TB_OK ? honest_graph.graph_launch(self, executable, stream) : status;
  };
}
TB_MUTANT(graph_launches_twice, "cpu", "graph_launch.3", "GRA-24", "a launch runs the graph twice") {
  change_graph<launch_twice>(api);
}

void launch_waits(tb_graph_api &graph) {
  graph.graph_launch = [](tb_driver *self, tb_graph_exec *executable, tb_stream *stream) {
    const tb_status status = honest_graph.graph_launch(self, executable, stream);
    return status == TB_OK ? real().stream_synchronize(self, stream) : status;
  };
}
TB_MUTANT(graph_launch_waits, "cpu", "T5", "GRA-22", "a launch waits for its stream") {
  change_graph<launch_waits>(api);
}

void update_anything(tb_graph_api &graph) {
  graph.graph_update = [](tb_driver *self, tb_graph_exec *executable, tb_graph *other) {
    const tb_status status = honest_graph.graph_update(self, executable, other);
    return status == TB_FAILED_PRECONDITION ? ok() : status;
  };
}
TB_MUTANT(graph_update_any_shape, "cpu", "graph_update.2", "GRA-29", "an update with another shape is taken") {
  change_graph<update_anything>(api);
}

void update_nothing(tb_graph_api &graph) {
  graph.graph_update = [](tb_driver *, tb_graph_exec *, tb_graph *) { return ok(); };
}
TB_MUTANT(graph_update_ignored, "cpu", "graph_update.1", "GRA-28", "an update changes nothing") {
  change_graph<update_nothing>(api);
}

void end_anywhere(tb_graph_api &graph) {
  graph.capture_end = [](tb_driver *self, tb_stream *stream, tb_graph **out) {
    const tb_status status = honest_graph.capture_end(self, stream, out);
    return status == TB_FAILED_PRECONDITION ? real().stream_default(self, 0, reinterpret_cast<tb_stream **>(out))
                                            : status;
  };
}
TB_MUTANT(capture_end_anywhere, "cpu", "capture_end.2", "GRA-07", "a stream that does not capture ends a capture") {
  change_graph<end_anywhere>(api);
}

} // namespace
} // namespace tb::contract::graphs_mutants
