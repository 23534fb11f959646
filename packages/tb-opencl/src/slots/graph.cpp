#include "slots/graph.h"

#include <cstring>

#include "slots/slot.h"

namespace tb::opencl {
namespace {

tb_status capture_begin(tb_driver *self, tb_stream *stream, uint64_t flags) {
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (const tb_status status = self->check_flags(flags, 0)) return status;
  return self->captures.begin(stream);
}

tb_status capture_is_active(tb_driver *self, tb_stream *stream, int32_t *out) {
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  *out = stream->captures;
  return TB_OK;
}

tb_status capture_end(tb_driver *self, tb_stream *stream, tb_graph **out) {
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  auto made = std::make_unique<tb_graph>();
  if (const tb_status status = self->captures.end(stream, &made->nodes)) return status;
  ++self->objects;
  *out = made.release();
  return TB_OK;
}

tb_status graph_node_count(tb_driver *self, tb_graph *graph, uint64_t *out) {
  if (const tb_status status = self->check(graph, "graph")) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  *out = graph->nodes->nodes.size();
  return TB_OK;
}

tb_status graph_destroy(tb_driver *self, tb_graph *graph) {
  if (const tb_status status = self->check(graph, "graph")) return status;
  delete graph;
  --self->objects;
  return TB_OK;
}

// Records on the device's default stream, which has the properties of all streams.
tb_status record_nodes(tb_driver *self, NodeList &nodes, const FailureWord &word, CommandBuffer *out) {
  if (nodes.nodes.empty()) return TB_OK;
  const cl_command_queue queue = self->defaults[static_cast<size_t>(nodes.device)]->queue;
  const cl_int code = record(self->cl, self->memory, queue, nodes, word, out);
  return code == CL_SUCCESS ? TB_OK : self->failed(code, "recording a command buffer");
}

tb_status graph_instantiate(tb_driver *self, tb_graph *graph, uint64_t flags, tb_graph_exec **out) {
  if (const tb_status status = self->check(graph, "graph")) return status;
  if (const tb_status status = self->check_flags(flags, 0)) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  auto made = std::make_unique<tb_graph_exec>();
  const int32_t device = graph->nodes->device;
  made->nodes = graph->nodes;
  made->word =
      std::make_shared<FailureWord>(self->cl, self->memory, device, self->own_queues[static_cast<size_t>(device)]);
  if (const tb_status status = record_nodes(self, *made->nodes, *made->word, &made->buffer)) return status;
  ++self->objects;
  *out = made.release();
  return TB_OK;
}

tb_status graph_launch(tb_driver *self, tb_graph_exec *executable, tb_stream *stream) {
  if (const tb_status status = self->check(executable, "executable")) return status;
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (stream->captures)
    return fail(self->host, TB_UNSUPPORTED, 0,
                "OpenCL captures no graph in a graph: capture the work itself, or launch after capture_end");
  const std::lock_guard lock(executable->mutex);
  NodeList &nodes = *executable->nodes;
  if (stream->device != nodes.device)
    return fail(self->host, TB_INVALID_ARGUMENT, 0, "the stream is one of device %d, the graph of device %d",
                stream->device, nodes.device);
  std::vector<cl_event> before;
  if (executable->last && executable->last.state() != CL_COMPLETE) before.push_back(executable->last.get());
  for (const Point &point : nodes.prerequisites) before.push_back(point.event.get());
  const auto count = static_cast<cl_uint>(before.size());
  const cl_event *const list = count ? before.data() : nullptr;

  const std::lock_guard order(stream->mutex);
  cl_event event = nullptr;
  const cl_int code =
      executable->buffer
          ? self->cl.clEnqueueCommandBufferKHR(1, &stream->queue, executable->buffer.get(), count, list, &event)
          : self->cl.clEnqueueBarrierWithWaitList(stream->queue, count, list, &event);
  if (code != CL_SUCCESS) return self->failed(code, "clEnqueueCommandBufferKHR");
  stream->note(self->cl, event);
  Point point{stream->last, {}};
  point.covers.add({executable->word, nodes.nodes.size()});
  for (const Point &one : nodes.prerequisites) point.covers.add(one.covers);
  stream->inherit(point);
  executable->last = stream->last;
  return TB_OK;
}

// Memory of nodes is freed at once, and queued launches may need it.
void wait_for_own_memory(tb_driver *self, const tb_graph_exec *executable) {
  if (executable->last && executable->nodes->owns_memory()) self->cl.clWaitForEvents(1, executable->last.address());
}

tb_status graph_update(tb_driver *self, tb_graph_exec *executable, tb_graph *graph) {
  if (const tb_status status = self->check(executable, "executable")) return status;
  if (const tb_status status = self->check(graph, "graph")) return status;
  const std::lock_guard lock(executable->mutex);
  const std::vector<Node> &mine = executable->nodes->nodes, &others = graph->nodes->nodes;
  bool fits = mine.size() == others.size() && executable->nodes->device == graph->nodes->device;
  for (size_t i = 0; fits && i < mine.size(); ++i) fits = mine[i].has_kind_of(others[i]);
  if (!fits)
    return fail(self->host, TB_FAILED_PRECONDITION, 0,
                "the graph has another number, kind or order of nodes: instantiate it instead");
  CommandBuffer buffer;
  if (const tb_status status = record_nodes(self, *graph->nodes, *executable->word, &buffer)) return status;
  wait_for_own_memory(self, executable);
  executable->nodes = graph->nodes;
  executable->buffer = std::move(buffer);
  return TB_OK;
}

tb_status graph_exec_destroy(tb_driver *self, tb_graph_exec *executable) {
  if (const tb_status status = self->check(executable, "executable")) return status;
  wait_for_own_memory(self, executable);
  delete executable;
  --self->objects;
  return TB_OK;
}

} // namespace

tb_status give_graph_table(void *table, uint32_t size) {
  tb_graph_api mine{};
  mine.struct_size = size < sizeof mine ? size : sizeof mine;
  mine.version = TB_GRAPH_VERSION;
#define TB_SLOT(group, need, name, parameters, arguments) mine.name = Slot<&name>::call;
#include "tb/graph_slots.inc"
#undef TB_SLOT
  std::memcpy(table, &mine, mine.struct_size);
  return TB_OK;
}

} // namespace tb::opencl
