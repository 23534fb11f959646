// A captured step, the conditions under which a launch of its graph replaces a call, and the launch.
#pragma once
#include <nanobind/nanobind.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "step/step_arguments.h"
#include "step/step_capture.h"
#include "step/step_gradients.h"
#include "step/watch.h"

namespace tb::compile {

// The modes of PyTorch that change what a function's operators do.
struct Modes {
  bool grad, inference, autocast, autocast_cache, deterministic;
  c10::ScalarType autocast_type;
  c10::DeviceIndex device; // the current one
  static Modes current();
  bool operator==(const Modes &) const = default;
};

class StepGraph {
public:
  // Made directly after the captured call. capture, arguments, watch: borrowed. results: as the function returned them,
  // without autograd. written: tensors that existed before and that the graph writes to.
  StepGraph(StepCapture &capture, StepArguments &arguments, Watch &watch, std::vector<StepLeaf> leaves,
            std::vector<at::Tensor> results, const std::vector<at::Tensor> &written);

  // The name of what differs from the captured call, if a launch cannot replace a call with these arguments; "" if it can.
  std::string difference(const std::vector<at::Tensor> &arguments) const;
  // Copies the arguments to where the graph reads them, launches it, and returns its results. Those that the graph has
  // made are copies; the others are views of the caller's arguments and of what existed before. Sets the gradients to
  // those after the step.
  std::vector<at::Tensor> launch(const std::vector<at::Tensor> &arguments);
  // launch() for positional arguments that are all tensors, if there is no difference and the current stream has the
  // number `stream` and does not capture. Otherwise None, and nothing is launched.
  nanobind::object relaunch(nanobind::tuple arguments, int64_t stream);
  // The results of the captured call itself, whose work has been launched already.
  std::vector<at::Tensor> results(const std::vector<at::Tensor> &arguments) const;

private:
  void release(StepLeaf &leaf);

  StepCapture &capture_;
  StepArguments &arguments_;
  Watch &watch_;
  const Modes modes_;
  std::vector<StepLeaf> leaves_;
  const std::vector<at::Tensor> results_;
  std::vector<c10::VariableVersion> written_;         // the counts of writes to what the graph writes to
  std::vector<c10::Storage> held_;                    // all memory that the graph uses and did not make
  std::unordered_set<const c10::StorageImpl *> used_; // the same
};

// The number of this thread's current stream; 0 for the device's default stream.
int64_t current_stream_id();

} // namespace tb::compile
