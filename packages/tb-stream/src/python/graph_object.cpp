// graph_object.cpp -- tb_stream.Graph: a capture and its launches.
#include "python/graph_object.h"

#include <nanobind/stl/optional.h>

#include <utility>

#include "capture.h"
#include "python/stream_handle.h"
#include "python_errors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::stream {
namespace {

class Graph {
public:
  Graph() = default;
  Graph(const Graph &) = delete;
  ~Graph() { capture_destroy(capture_); }

  void begin(const Stream &stream, std::optional<uint64_t> pool) {
    if (capture_)
      raise(TB_FAILED_PRECONDITION, "Graph", stream.device, "the graph holds captured work already: reset() it first");
    require_driver();
    tb_status status;
    {
      nb::gil_scoped_release released; // parts may wait for the device
      status = capture_begin(stream.device, stream.handle, pool.value_or(0), &capture_);
    }
    check(status, "capture_begin", stream.device);
    device_ = stream.device;
  }

  void end() {
    run("capture_end", [](tb_capture *capture) { return capture_end(capture); });
  }
  void instantiate() {
    run("graph_instantiate", [](tb_capture *capture) { return capture_instantiate(capture); });
  }
  void replay(const Stream &stream) {
    run("graph_launch", [&](tb_capture *capture) { return capture_launch(capture, stream.handle); });
  }
  void update(Graph &other) {
    tb_capture *from = other.require("update");
    run("graph_update", [&](tb_capture *capture) { return capture_update(capture, from); });
  }
  uint64_t node_count() {
    uint64_t count = 0;
    run("graph_node_count", [&](tb_capture *capture) { return capture_node_count(capture, &count); });
    return count;
  }
  uint64_t pool() { return capture_pool(require("pool")); }
  bool captured() const { return capture_ != nullptr; }
  int32_t device() const { return device_; }

  void reset() {
    nb::gil_scoped_release released;
    capture_destroy(std::exchange(capture_, nullptr));
  }

private:
  tb_capture *require(const char *function) {
    if (!capture_)
      raise(TB_FAILED_PRECONDITION, function, device_,
            "the graph holds no captured work: `with tb_stream.capture() as graph:` captures it");
    return capture_;
  }
  template <class Body> void run(const char *function, Body body) {
    tb_capture *capture = require(function);
    tb_status status;
    {
      nb::gil_scoped_release released; // a full queue makes the driver wait for room
      status = body(capture);
    }
    check(status, function, device_);
  }

  tb_capture *capture_ = nullptr;
  int32_t device_ = -1;
};

} // namespace

void bind_graph(nb::module_ &m) {
  nb::class_<Graph>(m, "Graph",
                    "Work of a stream, captured once and launched many times.\n\n"
                    "`with tb_stream.capture() as graph:` makes one. Every launch uses the same memory. With\n"
                    "tb-allocator, memory that the capture allocates belongs to the graph as long as it exists.")
      .def(nb::init<>())
      .def(
          "_begin",
          [](Graph &self, nb::handle stream, std::optional<uint64_t> pool) {
            self.begin(stream_argument(stream), pool);
          },
          "stream"_a, "pool"_a.none())
      .def("_end", &Graph::end)
      .def(
          "replay", [](Graph &self, nb::handle stream) { self.replay(stream_argument(stream)); },
          "stream"_a.none() = nb::none(),
          "Queue the captured work on `stream` (the current one by default). Launches of one graph run one after\n"
          "another.")
      .def("instantiate", &Graph::instantiate, "Make it ready to launch now instead of at the first replay().")
      .def("update", &Graph::update, "other"_a,
           "Launch the work of `other` from now on: a capture of the same operations with other arguments.\n\n"
           "FailedPreconditionError if the number, kind or order of operations differs; the graph is then unchanged.")
      .def("reset", &Graph::reset, "Drop the captured work and free its memory. Queued launches still complete.")
      .def_prop_ro("pool", &Graph::pool, "Number of its memory pool. Captures of one pool share memory.")
      .def_prop_ro("node_count", &Graph::node_count, "Number of captured operations.")
      .def_prop_ro(
          "device", [](const Graph &self) { return self.captured() ? std::optional(self.device()) : std::nullopt; },
          "Number of the device; None before the capture.");
  m.def("graph_pool_handle", &new_capture_pool,
        "Number of a new memory pool that several captures can share, for capture(pool=...).");
  m.def(
      "_is_capturing",
      [](nb::handle object) {
        bool active = false;
        const Stream stream = stream_argument(object);
        check(capture_is_active(stream.handle, &active), "capture_is_active", stream.device);
        return active;
      },
      "stream"_a.none());
}

} // namespace tb::stream
