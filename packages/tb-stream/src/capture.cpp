// capture.cpp -- beginning, ending and launching captures.
#include "capture.h"

#include <algorithm>

#include "capture_state.h"
#include "capturing.h"
#include "events.h"
#include "interruption.h"
#include "recorded_calls.h"

namespace tb::stream {

int32_t capturing = 0;

CaptureState &capture_state() {
  static CaptureState *made = new CaptureState;
  return *made;
}

namespace {

// The extension's functions are the driver's own and not tb-device's, so this checks for the end of the process and for
// forks.
tb_status open_graphs(int32_t device, const char *function, const Graphs **out) {
  static std::mutex opening;
  static std::atomic<const Graphs *> known{nullptr};
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  if (*host.forked) return driver.api->device_synchronize(driver.self, std::max(device, 0)); // refuses, with the text
  if (capture_state().ended.load()) return fail(TB_FAILED_PRECONDITION, device, function, "the process is ending");
  if ((*out = known.load(std::memory_order_acquire))) return TB_OK;
  std::lock_guard guard(opening);
  if ((*out = known.load())) return TB_OK;
  auto graphs = std::make_unique<Graphs>();
  graphs->driver = driver;
  graphs->api.struct_size = sizeof graphs->api;
  const tb_status status =
      driver.api->get_extension(driver.self, TB_GRAPH_EXTENSION, TB_GRAPH_VERSION, &graphs->api, sizeof graphs->api);
  if (status == TB_NOT_FOUND)
    return fail(TB_UNSUPPORTED, device, function,
                "the driver cannot capture work (it has no extension tb.graph): run the work itself each time");
  if (status != TB_OK) return status;
  known.store(*out = graphs.release(), std::memory_order_release);
  return TB_OK;
}

void close_handles(const Graphs &graphs, tb_capture &capture) {
  if (capture.executable) graphs.api.graph_exec_destroy(graphs.driver.self, capture.executable);
  capture.executable = nullptr;
  Work &work = *capture.work;
  if (work.graph) graphs.api.graph_destroy(graphs.driver.self, work.graph);
  work.graph = nullptr;
  if (work.last) release_event(work.last);
  work.last = nullptr;
}

// Tries again to end the captures that the driver failed to end before. The caller holds all.mutex.
void end_stuck(CaptureState &all, const Graphs &graphs) {
  std::erase_if(all.stuck, [&](tb_stream *stream) {
    tb_graph *graph = nullptr;
    if (graphs.api.capture_end(graphs.driver.self, stream, &graph) == TB_OK) {
      graphs.api.graph_destroy(graphs.driver.self, graph);
      return true;
    }
    drop_error();
    int32_t active = 1;
    return graphs.api.capture_is_active(graphs.driver.self, stream, &active) == TB_OK && !active;
  });
}

// Runs before the driver is closed, which fails while graphs exist.
void shutdown(void *) {
  CaptureState &all = capture_state();
  const Graphs *graphs = nullptr;
  const bool usable = open_graphs(-1, "shutdown", &graphs) == TB_OK;
  all.ended = true;
  if (!usable) return drop_error();
  std::lock_guard guard(all.mutex);
  end_stuck(all, *graphs);
  for (tb_capture *capture : all.all) close_handles(*graphs, *capture);
}

} // namespace

Work::~Work() {
  for (auto &[part, kept] : parts) part->destroy(kept);
  if (!graph) return;
  const Graphs *graphs = nullptr;
  if (open_graphs(device, "capture_destroy", &graphs) == TB_OK)
    graphs->api.graph_destroy(graphs->driver.self, graph);
  else
    drop_error();
  if (last) release_event(last);
}

namespace {

// Ends the capture for all parts, whether the driver ended it successfully or not.
void deactivate(tb_capture &capture, Stage stage) {
  CaptureState &all = capture_state();
  {
    std::lock_guard guard(all.mutex);
    std::erase(all.active, &capture);
    std::atomic_ref(capturing).fetch_sub(1);
    capture.stage = stage;
  }
  observe_capture(false);
  if (capture.interruptible) observe_interruptible(false);
  for (auto &[part, kept] : capture.work->parts) part->end(kept);
}

tb_status is_active(const Graphs &graphs, tb_stream *stream, bool *out) {
  int32_t active = 0;
  tb_status status = graphs.api.capture_is_active(graphs.driver.self, stream, &active);
  if (status == TB_OK) *out = active != 0;
  return status;
}

tb_status require_captured(const tb_capture &capture, const char *function) {
  if (capture.stage == Stage::captured) return TB_OK;
  return fail(TB_FAILED_PRECONDITION, capture.work->device, function,
              capture.stage == Stage::capturing
                  ? "the capture is still in progress: end it first"
                  : "the capture was dropped, so there is nothing to launch: capture again");
}

} // namespace

tb_status add_capture_part(const tb_capture_part *part) {
  CaptureState &all = capture_state();
  std::lock_guard guard(all.mutex);
  if (std::find(all.parts.begin(), all.parts.end(), part) == all.parts.end()) all.parts.push_back(part);
  return TB_OK;
}

uint64_t new_capture_pool() { return capture_state().pools.fetch_add(1) + 1; }

tb_status capture_is_active(tb_stream *stream, bool *out) {
  *out = false;
  if (std::atomic_ref(capturing).load(std::memory_order_relaxed) == 0) return TB_OK;
  const Graphs *graphs = nullptr;
  if (tb_status status = open_graphs(-1, "capture_is_active", &graphs); status != TB_OK) return status;
  return is_active(*graphs, stream, out);
}

tb_status capture_part(tb_stream *stream, const tb_capture_part *part, void **out_part) {
  CaptureState &all = capture_state();
  const Graphs *graphs = nullptr;
  if (tb_status status = open_graphs(-1, "capture_part", &graphs); status != TB_OK) return status;
  std::lock_guard guard(all.mutex);
  tb_capture *found = nullptr;
  for (tb_capture *capture : all.active)
    if (capture->work->stream == stream || capture->joined.contains(stream)) found = capture;
  if (!found) {
    bool joined = false;
    if (tb_status status = is_active(*graphs, stream, &joined); status != TB_OK) return status;
    if (joined && all.active.size() > 1)
      return fail(TB_FAILED_PRECONDITION, all.active[0]->work->device, "capture_part",
                  "several captures are in progress, and the stream joined one of them by waiting for its event: which "
                  "one is not known. Capture one after the other, or each on one stream only");
    if (joined && !all.active.empty()) (found = all.active[0])->joined.insert(stream);
  }
  void *kept = part ? nullptr : found;
  if (found)
    for (auto &[one, its] : found->work->parts)
      if (one == part) kept = its;
  *out_part = kept;
  return TB_OK;
}

tb_status capture_begin(int32_t device, tb_stream *stream, uint64_t pool, tb_capture **out) {
  const Graphs *graphs = nullptr;
  if (tb_status status = open_graphs(device, "capture_begin", &graphs); status != TB_OK) return status;
  CaptureState &all = capture_state();
  if (pool > all.pools.load()) // a later new_capture_pool() would return the same number and share the memory
    return fail(TB_INVALID_ARGUMENT, device, "capture_begin",
                "there is no memory pool of that number: take one of graph_pool_handle(), or of another graph (pool)");
  auto capture = std::make_unique<tb_capture>();
  capture->work = std::make_shared<Work>();
  Work &work = *capture->work;
  work.device = device;
  work.stream = stream;
  work.pool = pool ? pool : new_capture_pool();
  std::vector<const tb_capture_part *> parts;
  {
    std::lock_guard guard(all.mutex);
    if (!all.watching)
      if (tb_status status = host.on_shutdown(shutdown, nullptr); status != TB_OK) return status;
    all.watching = true;
    end_stuck(all, *graphs);
    parts = all.parts;
    all.active.reserve(all.active.size() + 1);
  }
  work.parts.reserve(parts.size());
  for (const tb_capture_part *part : parts) {
    void *kept = nullptr;
    if (tb_status status = part->begin(device, stream, work.pool, &kept); status != TB_OK) return status;
    work.parts.emplace_back(part, kept);
  }
  if (tb_status status = find_table(); status != TB_OK) return status;
  observe_capture(true);
  if (tb_status status = graphs->api.capture_begin(graphs->driver.self, stream, 0); status != TB_OK) {
    observe_capture(false);
    return status;
  }
  std::lock_guard guard(all.mutex);
  all.all.insert(capture.get());
  all.active.push_back(capture.get());
  std::atomic_ref(capturing).fetch_add(1);
  *out = capture.release();
  return TB_OK;
}

tb_status capture_end(tb_capture *capture) {
  Work &work = *capture->work;
  if (capture->stage != Stage::capturing)
    return fail(TB_FAILED_PRECONDITION, work.device, "capture_end", "the capture has ended already: end it once");
  const Graphs *graphs = nullptr;
  if (tb_status status = open_graphs(work.device, "capture_end", &graphs); status != TB_OK) return status;
  const tb_status status = graphs->api.capture_end(graphs->driver.self, work.stream, &work.graph);
  if (status == TB_OK) {
    deactivate(*capture, Stage::captured);
    return TB_OK;
  }
  tb_error error{}; // asking the driver may replace the text
  error.struct_size = sizeof error;
  const bool reported = host.take_error(&error);
  bool active = false;
  if (is_active(*graphs, work.stream, &active) == TB_OK && !active) deactivate(*capture, Stage::dropped);
  if (reported) host.set_error(error.status, error.native_code, work.device, error.function, error.text);
  return status;
}

tb_status capture_instantiate(tb_capture *capture) {
  if (tb_status status = require_captured(*capture, "capture_instantiate"); status != TB_OK) return status;
  const Graphs *graphs = nullptr;
  if (tb_status status = open_graphs(capture->work->device, "capture_instantiate", &graphs); status != TB_OK)
    return status;
  std::lock_guard guard(capture->work->launching);
  if (capture->executable) return TB_OK;
  tb_graph_exec *made = nullptr;
  const tb_status status = graphs->api.graph_instantiate(graphs->driver.self, capture->work->graph, 0, &made);
  if (status == TB_OK) capture->executable = made;
  return status;
}

tb_status capture_launch(tb_capture *capture, tb_stream *stream) {
  if (!capture->executable)
    if (tb_status status = capture_instantiate(capture); status != TB_OK) return status;
  const Graphs *graphs = nullptr;
  Work &work = *capture->work;
  if (tb_status status = open_graphs(work.device, "capture_launch", &graphs); status != TB_OK) return status;
  const Driver &driver = graphs->driver;
  bool inside = false;
  if (tb_status status = capture_is_active(stream, &inside); status != TB_OK) return status;
  if (inside) {
    int32_t captures = 0;
    if (tb_status status = capture_interrupt(stream, "a graph is launched, which no graph can contain", &captures);
        status != TB_OK)
      return status;
    inside = captures;
  }
  if (inside)
    return fail(TB_UNSUPPORTED, work.device, "capture_launch",
                "the stream captures, and a graph cannot be captured in a graph: launch after the capture has ended");
  std::lock_guard guard(work.launching);
  if (!work.last)
    if (tb_status status = acquire_event(work.device, 0, &work.last); status != TB_OK) return status;
  if (work.last_stream && work.last_stream != stream)
    if (tb_status status = driver.api->stream_wait_event(driver.self, stream, work.last); status != TB_OK)
      return status;
  for (auto &[part, kept] : work.parts)
    if (tb_status status = part->launch(kept, stream); status != TB_OK) return status;
  {
    const RecordedLaunch recorded(stream);
    if (tb_status status = graphs->api.graph_launch(driver.self, capture->executable, stream); status != TB_OK)
      return status;
  }
  work.last_stream = stream;
  return driver.api->event_record(driver.self, work.last, stream);
}

tb_status capture_update(tb_capture *capture, tb_capture *other) {
  if (tb_status status = require_captured(*other, "capture_update"); status != TB_OK) return status;
  if (tb_status status = capture_instantiate(capture); status != TB_OK) return status;
  const Graphs *graphs = nullptr;
  if (tb_status status = open_graphs(capture->work->device, "capture_update", &graphs); status != TB_OK) return status;
  const tb_status status = graphs->api.graph_update(graphs->driver.self, capture->executable, other->work->graph);
  if (status == TB_OK) capture->work = other->work;
  return status;
}

uint64_t capture_pool(const tb_capture *capture) { return capture->work->pool; }

tb_status capture_node_count(const tb_capture *capture, uint64_t *out) {
  if (tb_status status = require_captured(*capture, "capture_node_count"); status != TB_OK) return status;
  const Graphs *graphs = nullptr;
  if (tb_status status = open_graphs(capture->work->device, "capture_node_count", &graphs); status != TB_OK)
    return status;
  return graphs->api.graph_node_count(graphs->driver.self, capture->work->graph, out);
}

void capture_destroy(tb_capture *capture) {
  if (!capture) return;
  CaptureState &all = capture_state();
  const std::unique_ptr<tb_capture> owned(capture);
  if (capture->stage == Stage::capturing && capture_end(capture) != TB_OK) {
    drop_error();
    if (capture->stage == Stage::capturing) { // the driver still captures
      {
        std::lock_guard guard(all.mutex);
        all.stuck.insert(capture->work->stream);
      }
      deactivate(*capture, Stage::dropped);
    }
  }
  {
    std::lock_guard guard(all.mutex);
    all.all.erase(capture);
  }
  const Graphs *graphs = nullptr;
  if (!capture->executable) return;
  if (open_graphs(capture->work->device, "capture_destroy", &graphs) != TB_OK) return drop_error();
  graphs->api.graph_exec_destroy(graphs->driver.self, capture->executable);
}

} // namespace tb::stream
