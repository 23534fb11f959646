// The functions of the extension tb.graph.
#include "drivers/cpu/slots/graph.h"

#include "drivers/cpu/driver.h"
#include "drivers/cpu/graph/graph_capture.h"

namespace tb::drivers::cpu {

namespace graph {
namespace {

tb_status capture_begin(tb_driver *self, tb_stream *stream, uint64_t flags) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(stream, "stream")) return status;
    if (const tb_status status = driver.refuse_flags(flags, 0)) return status;
    return GraphCapture::begin(*Stream::of(stream));
  });
}

tb_status capture_is_active(tb_driver *self, tb_stream *stream, int32_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(stream, "stream")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    *out = Stream::of(stream)->capture() != nullptr;
    return TB_OK;
  });
}

tb_status capture_end(tb_driver *self, tb_stream *handle, tb_graph **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "stream")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    auto graph = std::make_unique<Graph>();
    if (const tb_status status = GraphCapture::end(*Stream::of(handle), &graph->nodes)) return status;
    driver.graph_count.fetch_add(1);
    *out = graph.release()->handle();
    return TB_OK;
  });
}

tb_status graph_node_count(tb_driver *self, tb_graph *graph, uint64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(graph, "graph")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    *out = Graph::of(graph)->nodes->nodes.size();
    return TB_OK;
  });
}

tb_status graph_destroy(tb_driver *self, tb_graph *graph) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(graph, "graph")) return status;
    delete Graph::of(graph);
    driver.graph_count.fetch_sub(1);
    return TB_OK;
  });
}

tb_status graph_instantiate(tb_driver *self, tb_graph *graph, uint64_t flags, tb_graph_exec **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(graph, "graph")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    if (const tb_status status = driver.refuse_flags(flags, 0)) return status;
    *out = (new Executable(Graph::of(graph)->nodes))->handle();
    driver.graph_count.fetch_add(1);
    return TB_OK;
  });
}

tb_status graph_launch(tb_driver *self, tb_graph_exec *executable, tb_stream *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(executable, "executable")) return status;
    if (const tb_status status = driver.require(handle, "stream")) return status;
    Stream &stream = *Stream::of(handle);
    if (stream.capturing())
      return fail(driver.host, TB_UNSUPPORTED,
                  "the CPU driver captures no graph in a graph: capture the work itself, or launch after capture_end");
    return Executable::of(executable)->launch(stream);
  });
}

tb_status graph_update(tb_driver *self, tb_graph_exec *executable, tb_graph *graph) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(executable, "executable")) return status;
    if (const tb_status status = driver.require(graph, "graph")) return status;
    return Executable::of(executable)->update(driver.host, Graph::of(graph)->nodes);
  });
}

tb_status graph_exec_destroy(tb_driver *self, tb_graph_exec *executable) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(executable, "executable")) return status;
    Executable::of(executable)->release();
    driver.graph_count.fetch_sub(1);
    return TB_OK;
  });
}

} // namespace
} // namespace graph

#include "drivers/common/graph_table.inc"

} // namespace tb::drivers::cpu
