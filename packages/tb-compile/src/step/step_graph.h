// A captured step, the conditions under which a launch of its graph replaces a call, and the launch.
#pragma once
#include <nanobind/nanobind.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

namespace tb::compile {

// The modes of PyTorch that change what a function's operators do.
struct Modes {
  bool grad, inference, autocast, deterministic;
  c10::ScalarType autocast_type;
  c10::DeviceIndex device; // the current one
  static Modes current();
  bool operator==(const Modes &) const = default;
};

class StepGraph {
public:
  // replay: launches the graph on the current stream. arguments: those of the captured call, all tensors. leaves:
  //   tensors whose gradients before and after the step are `before` and `after`, each None or a tensor. entries:
  //   (dict, key, value) of numbers that the graph contains. lists: (list, length). results: tensors that the graph
  //   writes.
  StepGraph(nanobind::object replay, std::vector<at::Tensor> arguments, std::vector<at::Tensor> leaves,
            nanobind::list before, nanobind::list after, nanobind::list entries, nanobind::list lists,
            std::vector<at::Tensor> results);

  // launch(), if nothing has changed since the capture and nothing except the arguments must be copied, and if the
  // current stream has the number `stream` and does not capture. Otherwise None, and nothing is launched.
  nanobind::object relaunch(nanobind::tuple arguments, int64_t stream);
  // Whether launch() may follow prepare(), for arguments of the right form. A gradient may be another tensor of the
  // same shape and type than at the capture.
  bool fits() const;
  // Copies such gradients to where the graph reads them.
  void prepare();
  // Copies the arguments to where the graph reads them, launches it, and returns copies of its results, which the next
  // launch overwrites. Sets the gradients to those after the step.
  nanobind::list launch(nanobind::tuple arguments);

private:
  struct Leaf {
    at::Tensor tensor;
    const void *address;
    at::Tensor before, after; // gradients
  };
  bool matches(nanobind::tuple arguments) const; // the condition of relaunch()
  bool numbers_unchanged() const;

  const nanobind::object replay_;
  std::vector<at::Tensor> arguments_;
  const Modes modes_;
  std::vector<Leaf> leaves_, changing_;
  const nanobind::list entries_, lists_;
  const std::vector<at::Tensor> results_;
};

// The number of this thread's current stream; 0 for the device's default stream.
int64_t current_stream_id();

} // namespace tb::compile
