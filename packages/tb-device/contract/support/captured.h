// Graphs and executables that the cases about tb.graph hold.
#pragma once

#include <utility>

#include "contract/support/probe.h"

namespace tb::contract {

class Graph {
public:
  // Ends the capture of the stream.
  Graph(Kit &kit, tb_stream *stream) : kit_(kit) {
    CHECK_OK(kit.graph().capture_end(kit.self(), stream, &graph_));
    CHECK(graph_ != nullptr);
  }
  ~Graph() { destroy(); }
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;
  operator tb_graph *() const { return graph_; }
  uint64_t nodes() const {
    Kit &kit = kit_;
    uint64_t count = UINT64_MAX;
    CHECK_OK(kit.graph().graph_node_count(kit.self(), graph_, &count));
    return count;
  }
  void destroy() {
    if (graph_) kit_.graph().graph_destroy(kit_.self(), std::exchange(graph_, nullptr));
  }

private:
  Kit &kit_;
  tb_graph *graph_ = nullptr;
};

class Executable {
public:
  Executable(Kit &kit, tb_graph *graph) : kit_(kit) {
    CHECK_OK(kit.graph().graph_instantiate(kit.self(), graph, 0, &executable_));
    CHECK(executable_ != nullptr);
  }
  ~Executable() { destroy(); }
  Executable(const Executable &) = delete;
  Executable &operator=(const Executable &) = delete;
  operator tb_graph_exec *() const { return executable_; }
  void launch(tb_stream *stream) const {
    Kit &kit = kit_;
    CHECK_OK(kit.graph().graph_launch(kit.self(), executable_, stream));
  }
  void destroy() {
    if (executable_) kit_.graph().graph_exec_destroy(kit_.self(), std::exchange(executable_, nullptr));
  }

private:
  Kit &kit_;
  tb_graph_exec *executable_ = nullptr;
};

inline void begin_capture(Kit &kit, tb_stream *stream) { CHECK_OK(kit.graph().capture_begin(kit.self(), stream, 0)); }

inline int32_t is_capturing(Kit &kit, tb_stream *stream) {
  int32_t active = -1;
  CHECK_OK(kit.graph().capture_is_active(kit.self(), stream, &active));
  return active;
}

// `after` waits for where `before` is now; while capturing: an edge of the graph.
inline void connect(Kit &kit, tb_stream *before, tb_stream *after) {
  Event event(kit);
  CHECK_OK(kit.api().event_record(kit.self(), event, before));
  CHECK_OK(kit.api().stream_wait_event(kit.self(), after, event));
}

} // namespace tb::contract
