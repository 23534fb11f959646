// A captured step: what a call must find so that a launch of the graph may take its place, and the launch.
#pragma once
#include <nanobind/nanobind.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

namespace tb {

// The modes of PyTorch that decide what a function's operators do.
struct Modes {
  bool grad, inference, autocast, deterministic;
  c10::ScalarType autocast_type;
  c10::DeviceIndex device; // the current one
  static Modes current();
  bool operator==(const Modes &) const = default;
};

class StepGraph {
public:
  // replay: launches the graph on the current stream. arguments: of the captured call, all tensors. leaves: tensors with
  // their gradients before and after the step, None or a tensor. entries: (dict, key, value) of numbers that the graph
  // keeps; lists: (list, length), as they are now. results: tensors that the graph fills.
  StepGraph(nanobind::object replay, std::vector<at::Tensor> arguments, std::vector<at::Tensor> leaves,
            nanobind::list before, nanobind::list after, nanobind::list entries, nanobind::list lists,
            std::vector<at::Tensor> results);

  // launch() if everything is as it was, without anything to be copied but the arguments, and the current stream has the
  // number of the launch before and captures nothing. None: it has not happened.
  nanobind::object relaunch(nanobind::tuple arguments, int64_t stream);
  // Copies the arguments to where the graph reads them, launches it, and gives copies of its results: the next launch
  // writes over them. Leaves the gradients that the step leaves.
  nanobind::list launch(nanobind::tuple arguments);

private:
  struct Leaf {
    at::Tensor tensor;
    const void *address;
    at::Tensor before, after; // gradients
  };
  bool holds(nanobind::tuple arguments) const;

  const nanobind::object replay_;
  std::vector<at::Tensor> arguments_;
  const Modes modes_;
  std::vector<Leaf> leaves_, changing_;
  const nanobind::list entries_, lists_;
  const std::vector<at::Tensor> results_;
};

// The same number for the same stream; 0 for the device's default one.
int64_t current_stream_id();

} // namespace tb
