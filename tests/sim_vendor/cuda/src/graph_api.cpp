// graph_api.cpp -- captures, and graphs of captured work.
#include "capture.h"

namespace simcuda {

void end_capture(const std::shared_ptr<Capture> &capture) {
  for (Stream *stream : capture->streams) {
    stream->capture.reset();
    stream->frontier.clear();
  }
  capture->context->captures.erase(capture);
}

namespace {

// Whether the frontier depends on the last nodes of all streams of the capture.
bool all_joined(const Capture &capture, const std::set<size_t> &frontier) {
  std::vector<bool> reached(capture.nodes.size());
  for (const size_t node : frontier) reached[node] = true;
  for (size_t node = reached.size(); node-- > 0;)
    for (const size_t before : capture.nodes[node].after) reached[before] = reached[before] || reached[node];
  for (const Stream *stream : capture.streams)
    for (const size_t node : stream->frontier)
      if (!reached[node]) return false;
  return true;
}

bool same_shape(const std::vector<Node> &left, const std::vector<Node> &right) {
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i)
    if (left[i].kind != right[i].kind || left[i].after != right[i].after) return false;
  return true;
}

} // namespace
} // namespace simcuda

using namespace simcuda;

extern "C" CUresult cuStreamBeginCapture_v2(CUstream handle, int mode) {
  return call<"cuStreamBeginCapture_v2">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    if (mode < 0 || mode > 2) return CUDA_ERROR_INVALID_VALUE;
    if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    auto capture = std::make_shared<Capture>();
    capture->context = stream->context;
    capture->origin = stream.get();
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->streams = {stream.get()};
    stream->capture = capture;
    stream->frontier.clear();
    stream->context->captures.insert(capture);
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuStreamEndCapture(CUstream handle, CUgraph *out) {
  return call<"cuStreamEndCapture">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    const auto capture = stream->capture;
    if (!out || !capture) return !out ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_ILLEGAL_STATE;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id())
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture->origin != stream.get()) {
      capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    const bool joined = all_joined(*capture, stream->frontier), invalidated = capture->invalidated;
    end_capture(capture);
    *out = nullptr;
    if (invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    auto graph = std::make_shared<Graph>(Graph{capture->nodes});
    all.graphs[graph.get()] = graph;
    *out = reinterpret_cast<CUgraph>(graph.get());
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuStreamIsCapturing(CUstream handle, int *status) {
  return call<"cuStreamIsCapturing">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    *status = !stream->capture               ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count) {
  return call<"cuGraphGetNodes">([&]() -> CUresult {
    Lock lock(world().mutex);
    const auto graph = find(world().graphs, handle);
    if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; nodes && i < *count; ++i)
      nodes[i] = i < graph->nodes.size() ? reinterpret_cast<CUgraphNode>(&graph->nodes[i]) : nullptr;
    if (!nodes || *count > graph->nodes.size()) *count = graph->nodes.size();
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuGraphDestroy(CUgraph handle) {
  return call<"cuGraphDestroy">([&]() -> CUresult {
    Lock lock(world().mutex);
    return world().graphs.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

extern "C" CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph handle, unsigned long long) {
  return call<"cuGraphInstantiateWithFlags">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context) return result;
    const auto graph = find(all.graphs, handle);
    if (!graph || !out) return CUDA_ERROR_INVALID_VALUE;
    auto made =
        std::make_shared<Executable>(Executable{context, std::make_shared<std::vector<Node>>(graph->nodes), {}});
    all.executables[made.get()] = made;
    *out = reinterpret_cast<CUgraphExec>(made.get());
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return call<"cuGraphLaunch">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(stream_handle, &result);
    if (!stream) return result;
    const auto executable = find(world().executables, handle);
    if (!executable) return CUDA_ERROR_INVALID_VALUE;
    const auto run = [nodes = executable->nodes, before = executable->last](CUresult failed) {
      if (before.queue) before.queue->wait(before.number);
      for (const Node &node : *nodes) // a node follows the nodes that it depends on
        if (const CUresult now = node.run(failed); now != CUDA_SUCCESS && failed == CUDA_SUCCESS) failed = now;
      return failed;
    };
    if (stream->capture) return submit(*stream, Work::child, run);
    executable->last = queue_operation(*stream, run);
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo *info) {
  return call<"cuGraphExecUpdate_v2">([&]() -> CUresult {
    Lock lock(world().mutex);
    const auto executable = find(world().executables, handle);
    const auto graph = find(world().graphs, graph_handle);
    if (!executable || !graph || !info) return CUDA_ERROR_INVALID_VALUE;
    *info = {};
    if (same_shape(*executable->nodes, graph->nodes)) {
      executable->nodes = std::make_shared<std::vector<Node>>(graph->nodes); // queued launches keep the old nodes
      return CUDA_SUCCESS;
    }
    info->result = 2; // the topology changed
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  });
}

extern "C" CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return call<"cuGraphExecDestroy">([&]() -> CUresult {
    Lock lock(world().mutex);
    return world().executables.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
