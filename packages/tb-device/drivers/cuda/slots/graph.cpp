// The functions of the extension tb.graph.
//
// libcuda drops a capture at the first wrong call, where the extension lets it go on: such calls are refused here,
// before libcuda sees them.
#include "drivers/cuda/driver.h"

namespace tb::drivers::cuda {
namespace graph {
namespace {

tb_status capture_begin(tb_driver *self, tb_stream *handle, uint64_t flags) {
  return with_object<Stream>(self, handle, "stream", {{}, flags}, [&](Driver &driver, Stream &stream) -> tb_status {
    tb_status status = TB_OK;
    Device &device = stream.device;
    if (!stream.native)
      return fail(driver.host, TB_FAILED_PRECONDITION,
                  "CUDA captures no default stream: use a stream of stream_create");
    if (driver.is_capturing(stream)) return fail(driver.host, TB_FAILED_PRECONDITION, "the stream captures already");
    // Relaxed: other threads may allocate meanwhile, as the driver's own callers do.
    const CUresult result = driver.api.cuStreamBeginCapture(stream.native, CU_STREAM_CAPTURE_MODE_RELAXED);
    if ((status = driver.report(device, result, "cuStreamBeginCapture"))) return status;
    std::lock_guard lock(device.mutex);
    device.capturing.insert(stream.native);
    device.captures.fetch_add(1);
    return TB_OK;
  });
}

tb_status capture_is_active(tb_driver *self, tb_stream *handle, int32_t *out) {
  return with_object<Stream>(self, handle, "stream", {{{out, "out"}}},
                             [&](Driver &driver, Stream &stream) -> tb_status {
                               *out = driver.is_capturing(stream);
                               return TB_OK;
                             });
}

tb_status capture_end(tb_driver *self, tb_stream *handle, tb_graph **out) {
  return with_object<Stream>(
      self, handle, "stream", {{{out, "out"}}}, [&](Driver &driver, Stream &stream) -> tb_status {
        tb_status status = TB_OK;
        Device &device = stream.device;
        {
          std::lock_guard lock(device.mutex);
          if (!device.capturing.erase(stream.native))
            return fail(driver.host, TB_FAILED_PRECONDITION,
                        "no capture began on this stream: end it on the stream of capture_begin");
          device.captures.fetch_sub(1);
        }
        CUgraph native = nullptr;
        const CUresult result = driver.api.cuStreamEndCapture(stream.native, &native);
        if (result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
          return fail_cuda(driver.host, driver.api, TB_FAILED_PRECONDITION, result, "cuStreamEndCapture",
                           "Let the stream of capture_begin wait for every stream that joined");
        if ((status = driver.report(device, result, "cuStreamEndCapture"))) return status;
        *out = (new Graph{device, native, device.generation})->handle();
        driver.live.graphs.fetch_add(1);
        return TB_OK;
      });
}

tb_status graph_node_count(tb_driver *self, tb_graph *handle, uint64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "graph")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    auto *graph = Graph::of(handle);
    size_t count = 0;
    const CUresult result = driver.api.cuGraphGetNodes(graph->native, nullptr, &count);
    if (const tb_status status = driver.report(graph->device, result, "cuGraphGetNodes")) return status;
    *out = count;
    return TB_OK;
  });
}

tb_status graph_destroy(tb_driver *self, tb_graph *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "graph")) return status;
    auto *graph = Graph::of(handle);
    const tb_status status = driver.report(graph->device, driver.api.cuGraphDestroy(graph->native), "cuGraphDestroy");
    if (tb_is_refusal(status)) return status;
    driver.live.graphs.fetch_sub(1);
    delete graph;
    return status;
  });
}

tb_status graph_instantiate(tb_driver *self, tb_graph *handle, uint64_t flags, tb_graph_exec **out) {
  return with_object<Graph>(self, handle, "graph", {{{out, "out"}}, flags},
                            [&](Driver &driver, Graph &graph) -> tb_status {
                              tb_status status = TB_OK;
                              CUgraphExec native = nullptr;
                              const CUresult result = driver.api.cuGraphInstantiateWithFlags(&native, graph.native, 0);
                              if ((status = driver.report(graph.device, result, "cuGraphInstantiateWithFlags")))
                                return status;
                              *out = (new Executable{graph.device, native, graph.device.generation})->handle();
                              driver.live.graphs.fetch_add(1);
                              return TB_OK;
                            });
}

tb_status graph_launch(tb_driver *self, tb_graph_exec *handle, tb_stream *stream_handle) {
  return with_object<Stream>(self, stream_handle, "stream", {}, [&](Driver &driver, Stream &stream) -> tb_status {
    tb_status status = TB_OK;
    auto *executable = driver.usable_object<Executable>(handle, "executable", &status);
    if (!executable) return status;
    if (driver.is_capturing(stream))
      return fail(driver.host, TB_UNSUPPORTED,
                  "the CUDA driver captures no graph in a graph: capture the work itself, or launch after capture_end");
    return driver.report(stream.device, driver.api.cuGraphLaunch(executable->native, stream.native), "cuGraphLaunch");
  });
}

tb_status graph_update(tb_driver *self, tb_graph_exec *handle, tb_graph *graph_handle) {
  return with_object<Executable>(
      self, handle, "executable", {}, [&](Driver &driver, Executable &executable) -> tb_status {
        tb_status status = TB_OK;
        const auto *graph = driver.usable_object<Graph>(graph_handle, "graph", &status);
        if (!graph) return status;
        CUgraphExecUpdateResultInfo info = {};
        const CUresult result = driver.api.cuGraphExecUpdate(executable.native, graph->native, &info);
        return driver.report(executable.device, result, "cuGraphExecUpdate",
                             "Instantiate the graph again: its shape differs");
      });
}

tb_status graph_exec_destroy(tb_driver *self, tb_graph_exec *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = driver.require(handle, "executable");
    if (status) return status;
    auto *executable = Executable::of(handle);
    if (executable->generation == executable->device.generation) {
      status =
          driver.report(executable->device, driver.api.cuGraphExecDestroy(executable->native), "cuGraphExecDestroy");
      if (tb_is_refusal(status)) return status;
    }
    driver.live.graphs.fetch_sub(1);
    delete executable;
    return status;
  });
}

} // namespace
} // namespace graph

#include "drivers/common/graph_table.inc"

} // namespace tb::drivers::cuda
