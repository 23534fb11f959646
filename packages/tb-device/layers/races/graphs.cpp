// What graphs use, noted when they are launched.
#include "layers/races/races.h"

namespace tb::layers {

tb_status Races::around(On<Slot::capture_begin>, Next next, tb_stream *stream, uint64_t) {
  auto capture = std::make_shared<RecordedGraph>();
  const tb_status status = next();
  if (status != TB_OK) return status;
  std::lock_guard lock(mutex_);
  order_.stream(stream).capture = std::move(capture);
  return status;
}

void Races::leave_capture(const std::shared_ptr<RecordedGraph> &capture) {
  if (!capture) return;
  capture->active = false;
  order_.each([&](OrderedStream &stream) {
    if (stream.capture == capture) stream.capture = nullptr;
  });
}

tb_status Races::around(On<Slot::capture_end>, Next next, tb_stream *stream, tb_graph **out) {
  const tb_status status = next();
  int32_t active = 1;
  if (status != TB_OK && inner_graph.capture_is_active)
    (void)inner_graph.capture_is_active(inner_self, stream, &active);
  std::lock_guard lock(mutex_);
  const auto capture = order_.stream(stream).capture;
  if (status == TB_OK) graphs_[*out] = capture;
  if (status == TB_OK || !active) leave_capture(capture);
  return status;
}

tb_status Races::around(On<Slot::graph_destroy>, Next next, tb_graph *graph) {
  {
    std::lock_guard lock(mutex_);
    graphs_.erase(graph);
  }
  return next();
}

tb_status Races::around(On<Slot::graph_instantiate>, Next next, tb_graph *graph, uint64_t, tb_graph_exec **out) {
  const tb_status status = next();
  if (status != TB_OK) return status;
  std::lock_guard lock(mutex_);
  executables_[*out] = {graphs_[graph], {}};
  return status;
}

tb_status Races::around(On<Slot::graph_update>, Next next, tb_graph_exec *executable, tb_graph *graph) {
  const tb_status status = next();
  if (status != TB_OK) return status;
  std::lock_guard lock(mutex_);
  executables_[executable].graph = graphs_[graph];
  return status;
}

tb_status Races::around(On<Slot::graph_launch>, Next next, tb_graph_exec *executable, tb_stream *stream) {
  const Place here = place_here();
  {
    std::lock_guard lock(mutex_);
    Executable &launched = executables_[executable];
    OrderedStream &queue = order_.stream(stream);
    queue.done.join(launched.last); // launches of one executable never overlap
    const uint64_t number = queue.capture ? 0 : order_.next(queue);
    const uint32_t place = number_of(here);
    if (launched.graph)
      for (const RecordedGraph::One &one : launched.graph->uses) {
        Use use = one.use;
        use.launch_place = place;
        note(&queue, number, one.extent, use);
      }
    launched.last = queue.done;
  }
  return next();
}

tb_status Races::around(On<Slot::graph_exec_destroy>, Next next, tb_graph_exec *executable) {
  {
    std::lock_guard lock(mutex_);
    executables_.erase(executable);
  }
  return next();
}

} // namespace tb::layers
