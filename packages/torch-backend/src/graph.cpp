// graph.cpp -- torch.accelerator.Graph over tb-stream's captures. tb-allocator and tb-ops take part in the captures
// themselves, with memory and random numbers.
#include <ATen/core/GraphImplInterface.h>

#include <utility>

#include "components.h"
#include "registration.h"

namespace tb::backend {
namespace {

class Graph final : public at::GraphImplInterface {
public:
  explicit Graph(const at::GraphImplArgs &args) : keep_(args.keep_graph) {}
  ~Graph() override { reset(); }
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  // The modes select which calls of other threads are errors. Here these are always the same: waiting for a stream that
  // captures, or for its device.
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override {
    TORCH_CHECK(!capture_, "the graph holds captured work already: reset() it, or make another one");
    ensure_ready();
    device_ = components.device.current_device();
    check(components.stream.capture_begin(device_, current_stream(device_), pool.first ? pool.first : pool.second,
                                          &capture_),
          "capture_begin", device_);
  }

  void capture_end() override {
    require();
    try {
      check(components.stream.capture_end(capture_), "capture_end", device_);
      if (!keep_) instantiate();
    } catch (...) {
      reset();
      throw;
    }
  }

  void instantiate() override { check(components.stream.capture_instantiate(require()), "instantiate", device_); }
  void replay() override {
    tb_capture *const capture = require(); // before device_, which an empty graph does not have
    check(components.stream.capture_launch(capture, current_stream(device_)), "graph_launch", device_);
  }
  void reset() override { components.stream.capture_destroy(std::exchange(capture_, nullptr)); }
  c10::MempoolId_t pool() const override { return {components.stream.capture_pool(require()), 0}; }

  void enable_debug_mode() override {}
  void debug_dump(const std::string &) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "debug_dump: a tb driver knows only the number of operations of a graph");
  }

private:
  tb_capture *require() const {
    TORCH_CHECK(capture_, "the graph holds no captured work: capture_begin comes first");
    return capture_;
  }

  const bool keep_;
  int32_t device_ = -1;
  tb_capture *capture_ = nullptr;
};

} // namespace

void register_graph() {
  at::GraphImplRegistry()->Register(c10::DeviceTypeName(device_type, /*lower_case=*/false),
                                    [](at::GraphImplArgs args) { return std::make_unique<Graph>(args); });
}

} // namespace tb::backend
